"""One server with the default model, for all tests here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import openai
import pytest

from .process import Server, serving


@pytest.fixture(scope="session")
def server(model_path: Path) -> Iterator[Server]:
    with serving("--kv-pool-size", "256MiB") as running:
        yield running


@pytest.fixture
def client(server: Server) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0, timeout=30) as client:
        yield client
