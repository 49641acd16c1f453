"""Ten minutes without a request, and then one: `pytest -m soak`."""

from __future__ import annotations

import os
import time
from pathlib import Path

import httpx
import pytest

from ..processes import children
from .metrics import metric
from .process import serving

IDLE_SECONDS = 600
BODY = {"prompt": "The capital of France is", "max_tokens": 12, "temperature": 0}


def ask(url: str) -> tuple[float, str]:
    """Seconds to the answer, and its text."""
    began = time.monotonic()
    response = httpx.post(f"{url}/v1/completions", json=BODY, timeout=30)
    response.raise_for_status()
    return time.monotonic() - began, response.json()["choices"][0]["text"]


def cpu_seconds(pid: int) -> float:
    """Time that a process and those below it have computed."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    own = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return own + sum(cpu_seconds(child) for child in children(pid))


@pytest.mark.soak
def test_after_ten_minutes_without_traffic_it_answers_at_once(model_path: Path) -> None:
    with serving("--kv-pool-size", "64MiB", "--check", "--slo-ttft", "2", "--slo-tpot", "0.04") as server:
        before = [ask(server.url) for _ in range(3)]
        earlier = httpx.get(f"{server.url}/admin/engines").json()
        spent = cpu_seconds(server.process.pid)
        time.sleep(IDLE_SECONDS)
        spent = cpu_seconds(server.process.pid) - spent
        after = [ask(server.url) for _ in range(3)]
        print(f"{spent:.2f} s of CPU in {IDLE_SECONDS} s")
        print("before", *(f"{took:.3f} s" for took, _ in before))
        print("after", *(f"{took:.3f} s" for took, _ in after))
        assert {text for _, text in [*before, *after]} == {before[0][1]}
        assert metric(server.url, "twinfer_engine_losses_total") == 0
        engines = httpx.get(f"{server.url}/admin/engines").json()["engines"]
        assert [engine["pid"] for engine in engines] == [engine["pid"] for engine in earlier["engines"]]
