"""The memory of processes: their own, and their part of what they share."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

MIB = 1 << 20
LOOK_EVERY = 5.0
"""Seconds; a look walks all pages of the pool, which costs a core a tenth of a second."""


async def watch(memory: list[dict[str, float]]) -> None:
    """Note the memory of all processes below ours, now and then."""
    began = time.perf_counter()
    while True:
        memory.append({"seconds": round(time.perf_counter() - began, 1), **of_children()})
        await asyncio.sleep(LOOK_EVERY)


def of_children() -> dict[str, float]:
    """The memory of all processes below ours together: their own, and what they share, in MiB."""
    found = [sizes(pid) for pid in descendants("self")]
    kinds = {"own": "Pss_Anon", "shared": "Pss_Shmem"}
    return {name: round(sum(each.get(kind, 0) for each in found) / MIB, 1) for name, kind in kinds.items()}


def descendants(pid: int | str) -> list[int]:
    """The processes below one."""
    listed = [path.read_text().split() for path in Path(f"/proc/{pid}/task").glob("*/children")]
    own = sorted({int(child) for each in listed for child in each})
    return own + [below for child in own for below in descendants(child)]


def sizes(pid: int) -> dict[str, int]:
    """Kinds of memory in bytes, shared pages counted in shares; nothing of a process that is gone."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    except OSError:
        return {}
    return {(parts := line.split())[0].rstrip(":"): int(parts[1]) * 1024 for line in lines}
