"""The real HTTP server on a real port, with the fake behind it."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import openai
import pytest

from .http_fake import FakeRouter, FakeService
from .threaded import serving


@pytest.fixture(scope="session")
def service() -> FakeService:
    return FakeService()


@pytest.fixture(scope="session")
def address(service: FakeService) -> Iterator[str]:
    with serving(service) as url:
        yield url


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
