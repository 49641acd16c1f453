"""Engines killed under clients' streams: over HTTP too, every answer is as if nothing had happened."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from ..processes import wait_until
from .metrics import metric, wait_until_idle
from .process import serving
from .test_admin import requests
from .test_load import read_stream


@pytest.fixture(scope="module")
def url(model_path: Path) -> Iterator[str]:
    with serving("--kv-pool-size", "128MiB", "--prefill-chunk", "64", "--check") as server:
        yield server.url


def pid_of(url: str, engine: str) -> int:
    listed = httpx.get(f"{url}/admin/engines").json()["engines"]
    return next(each["pid"] for each in listed if each["id"] == engine)


async def text_of(http: httpx.AsyncClient, body: dict[str, Any]) -> str:
    """The answer's text, streamed or not as the body says."""
    if body["stream"]:
        return await read_stream(http, body, False)
    response = await http.post("/v1/completions", json=body)
    response.raise_for_status()
    return response.json()["choices"][0]["text"]


async def disturbed(url: str, engine: str) -> tuple[list[str], list[str]]:
    """Answers undisturbed, and the same ones with an engine killed while they are written."""
    async with httpx.AsyncClient(base_url=url, timeout=120) as http:
        asked = [{**body, "stream": number % 3 > 0} for number, body in enumerate(requests(12))]
        expected = [await text_of(http, body) for body in asked]
        # Prompts of a salt of their own are computed again.
        again = [{**body, "cache_salt": f"{engine} {body['cache_salt']}"} for body in asked]
        running = [asyncio.create_task(text_of(http, body)) for body in again]
        await asyncio.sleep(0.15)
        os.kill(pid_of(url, engine), signal.SIGKILL)
        return expected, list(await asyncio.gather(*running))


@pytest.mark.parametrize("engine", ["prefill-0", "decode-0"])
def test_no_stream_notices_a_killed_engine(url: str, engine: str) -> None:
    victim, losses = pid_of(url, engine), metric(url, "twinfer_engine_losses_total")
    expected, given = asyncio.run(disturbed(url, engine))
    assert given == expected
    assert all(expected)
    wait_until(lambda: metric(url, "twinfer_engine_losses_total") == losses + 1)
    wait_until(lambda: pid_of(url, engine) != victim and httpx.get(f"{url}/ready").status_code == 200)
    wait_until_idle(url)
