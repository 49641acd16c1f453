"""More requests than can be served: each is answered or told to come back, and nothing grows."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import httpx

from ..processes import children
from .metrics import metric, wait_until_idle
from .process import Server, serving

GROWTH = 40 << 20
"""Bytes of their own by which all processes together may grow: a hundred requests' worth and buffers."""

ROUNDS, CLIENTS = 3, 40
SMALL = ("--max-queue", "8", "--max-batch-size", "2", "--kv-pool-size", "64MiB")


def own_memory(pid: int) -> int:
    """Bytes that a process and those below it share with nobody, and not the pool."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    own = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss_Anon:"))
    return own + sum(own_memory(child) for child in children(pid))


def flood(server: Server, kept: list[httpx.Response]) -> None:
    """Many clients at once, with text and chats, streaming and not."""

    def ask(number: int) -> None:
        text = f"{number} is a number. " * 20
        body: dict[str, Any] = {"max_tokens": 12, "stream": number % 3 == 0}
        route, body = (
            ("completions", {**body, "prompt": text})
            if number % 2
            else ("chat/completions", {**body, "messages": [{"role": "user", "content": text}]})
        )
        kept.append(httpx.post(f"{server.url}/v1/{route}", json=body, timeout=200))

    threads = [threading.Thread(target=ask, args=[number]) for number in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_more_than_can_be_served_is_refused_and_costs_no_memory(model_path: Path) -> None:
    with serving(*SMALL, "--check") as server:
        warm: list[httpx.Response] = []
        flood(server, warm)
        before = own_memory(server.process.pid)
        answers: list[httpx.Response] = []
        for _ in range(ROUNDS):
            flood(server, answers)
        grown = own_memory(server.process.pid) - before
        codes = [answer.status_code for answer in answers]
        assert len(codes) == ROUNDS * CLIENTS
        assert set(codes) == {200, 429}
        refused = [answer for answer in answers if answer.status_code == 429]
        assert all(int(answer.headers["retry-after"]) >= 1 for answer in refused)
        assert grown < GROWTH
        wait_until_idle(server.url)
        assert metric(server.url, "twinfer_kv_leases") == 0
        body = {"prompt": "The capital of France is", "max_tokens": 4, "temperature": 0}
        after = httpx.post(f"{server.url}/v1/completions", json=body, timeout=200)
        assert after.status_code == 200
        assert "Paris" in after.json()["choices"][0]["text"]
