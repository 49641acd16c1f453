"""Engines drained, resumed and given other roles under load: nothing is lost, all answers are the same."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from .metrics import wait_until_idle
from .process import serving
from .test_load import read_stream

TOKEN = {"X-Admin-Token": "let-me"}


@pytest.fixture(scope="module")
def url(model_path: Path) -> Iterator[str]:
    options = ["--decode-engines", "2", "--kv-pool-size", "128MiB", "--prefill-chunk", "64"]
    with serving(*options, "--admin-token", "let-me") as server:
        yield server.url


def requests(count: int) -> list[dict[str, Any]]:
    source = random.Random(11)
    return [
        {
            "prompt": [source.randrange(300, 40000) for _ in range(source.choice([5, 40, 300]))],
            "max_tokens": source.randrange(20, 60),
            "temperature": (0, 0.9)[number % 2],
            "seed": number,
            "ignore_eos": True,
            "stream": True,
            "cache_salt": str(number),
        }
        for number in range(count)
    ]


async def changes(http: httpx.AsyncClient) -> AsyncIterator[tuple[str, dict[str, str] | None]]:
    """For as long as somebody listens, one change after the other."""
    source = random.Random(5)
    engines = ["prefill-0", "decode-0", "decode-1"]
    while True:
        engine = source.choice(engines)
        yield f"/admin/engines/{engine}/drain", None
        await asyncio.sleep(source.random() * 0.2)
        yield f"/admin/engines/{engine}/resume", None
        role = source.choice(["prefill", "decode", "mixed"])
        yield f"/admin/engines/{source.choice(engines)}/role", {"role": role}
        await asyncio.sleep(source.random() * 0.2)


async def disturb(http: httpx.AsyncClient, done: asyncio.Event) -> int:
    count = 0
    async for route, body in changes(http):
        response = await http.post(route, json=body, headers=TOKEN)
        assert response.status_code == 200, response.text
        count += 1
        if done.is_set():
            return count
    raise AssertionError


async def run(url: str) -> tuple[list[str], list[str], int]:
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(base_url=url, timeout=120, limits=limits) as http:
        asked = requests(24)
        expected = [await read_stream(http, body, False) for body in asked]
        done = asyncio.Event()
        disturbing = asyncio.create_task(disturb(http, done))
        try:
            given = await asyncio.gather(*(read_stream(http, body, False) for body in asked))
        finally:
            done.set()
        count = await disturbing
        for engine, role in (("prefill-0", "prefill"), ("decode-0", "decode"), ("decode-1", "decode")):
            await http.post(f"/admin/engines/{engine}/resume", headers=TOKEN)
            await http.post(f"/admin/engines/{engine}/role", json={"role": role}, headers=TOKEN)
        return expected, given, count


def test_changes_under_load_change_no_answer(url: str) -> None:
    expected, given, count = asyncio.run(run(url))
    assert given == expected
    assert all(expected)
    assert count >= 6
    wait_until_idle(url)


def test_a_drained_engine_gets_nothing_and_comes_back(url: str) -> None:
    with httpx.Client(base_url=url, timeout=30, headers=TOKEN) as http:

        def running(engine: str) -> tuple[str, int]:
            listed = http.get("/admin/engines").json()["engines"]
            return next((each["state"], each["running"]) for each in listed if each["id"] == engine)

        assert http.post("/admin/engines/decode-0/drain").json()["state"] == "draining"
        body = {"prompt": "Once", "max_tokens": 300, "ignore_eos": True, "stream": True}
        with http.stream("POST", "/v1/completions", json=body) as response:
            lines = response.iter_lines()
            next(lines)
            with httpx.Client(base_url=url, headers=TOKEN) as other:
                assert running_on(other, "decode-1") == 1
                other.post("/admin/engines/decode-1/drain")
                other.post("/admin/engines/decode-0/resume")
                deadline = time.monotonic() + 2
                while running_on(other, "decode-1"):
                    assert time.monotonic() < deadline
                    time.sleep(0.01)
            assert [line for line in lines if line][-1] == "data: [DONE]"
        assert running("decode-1") == ("draining", 0)
        assert http.post("/admin/engines/decode-1/resume").json()["state"] == "ready"


def running_on(http: httpx.Client, engine: str) -> int:
    listed = http.get("/admin/engines").json()["engines"]
    return next(each["running"] for each in listed if each["id"] == engine)
