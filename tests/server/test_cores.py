"""Who used which core for how long, told by a real server under load."""

from __future__ import annotations

import asyncio
import os
import re
import time
from pathlib import Path

import httpx
import pytest

from .process import serving

LINE = re.compile(r'twinfer_core_seconds_total\{core="(\d+)",engine="([^"]+)",lent="(true|false)"\} (\S+)')


def core_seconds(url: str) -> dict[tuple[str, bool], float]:
    """Seconds of each engine on its own cores, and on those lent to it."""
    found: dict[tuple[str, bool], float] = {}
    for _, engine, lent, seconds in LINE.findall(httpx.get(f"{url}/metrics").text):
        key = engine, lent == "true"
        found[key] = found.get(key, 0) + float(seconds)
    return found


def processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def load(url: str) -> None:
    """Prompts while answers are written."""
    async with httpx.AsyncClient(base_url=url, timeout=120) as http:
        bodies = [
            {"prompt": [300 + n] * 600, "max_tokens": 40 if n % 2 else 1, "ignore_eos": True, "seed": n}
            for n in range(8)
        ]
        for response in await asyncio.gather(*(http.post("/v1/completions", json=body) for body in bodies)):
            assert response.status_code == 200, response.text


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="nothing can be lent on one core")
def test_seconds_grow_with_load_on_own_and_lent_cores(model_path: Path) -> None:
    with serving("--kv-pool-size", "256MiB", "--slo-tpot", "0.05") as server:
        engines = httpx.get(f"{server.url}/admin/engines").json()["engines"]
        before = core_seconds(server.url)
        used_before = {each["id"]: processor_seconds(each["pid"]) for each in engines}
        assert set(before) == {(each["id"], lent) for each in engines for lent in (False, True)}
        asyncio.run(load(server.url))
        deadline = time.monotonic() + 10
        # The last report comes when an engine becomes idle.
        while any(after <= before[key] for key, after in core_seconds(server.url).items()):
            assert time.monotonic() < deadline, core_seconds(server.url)
            time.sleep(0.05)
        time.sleep(0.1)
        after = core_seconds(server.url)
        for engine in httpx.get(f"{server.url}/admin/engines").json()["engines"]:
            name = engine["id"]
            listed = sum(each["seconds"] for each in engine["core_seconds"])
            assert listed == pytest.approx(after[name, False] + after[name, True], abs=0.01)
            told = sum(after[name, lent] - before[name, lent] for lent in (False, True))
            used = processor_seconds(engine["pid"]) - used_before[name]
            # The team's threads are most of the process; the kernel tells its time in hundredths.
            assert 0.5 * used - 0.1 <= told <= used + 0.1
        assert "twinfer_paced_steps_total" in httpx.get(f"{server.url}/metrics").text
