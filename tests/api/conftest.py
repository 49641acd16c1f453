"""The real HTTP server on a real port, with the fake behind it."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import httpx
import openai
import pytest
import uvicorn

from twinfer.api import listen
from twinfer.api.app import build_app

from .http_fake import FakeRouter, FakeService, wait_until


@pytest.fixture(scope="session")
def service() -> FakeService:
    return FakeService()


@pytest.fixture(scope="session")
def address(service: FakeService) -> Iterator[str]:
    bound = listen.bind("127.0.0.1", 0)
    config = uvicorn.Config(build_app(service), lifespan="off", log_level="critical")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
    thread.start()
    wait_until(lambda: server.started)
    yield listen.url(bound)
    server.should_exit = True
    thread.join(10)
    assert not thread.is_alive()


@pytest.fixture
def router(service: FakeService) -> FakeRouter:
    service.router.reset()
    return service.router


@pytest.fixture
def http(address: str, router: FakeRouter) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=address, timeout=10) as client:
        yield client


@pytest.fixture
def client(address: str, router: FakeRouter) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0, timeout=10) as client:
        yield client
