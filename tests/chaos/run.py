"""A load under faults, compared token by token with the same requests undisturbed."""

from __future__ import annotations

import asyncio
import os
import time
from typing import Any

import msgspec

from twinfer import serving
from twinfer.config import Config
from twinfer.router.generation import Generation
from twinfer.router.router import Router

from ..processes import children
from .killer import Fault, Killer
from .workload import Crowd, Tally, requests

REQUESTS = 40
CLIENTS = 10


class Report(msgspec.Struct):
    """The outcome of a run. Pages and processes are what was left behind."""

    seed: int
    seconds: float
    faults: list[Fault]
    tally: Tally
    recomputed_tokens: int
    leaked_pages: int
    stray_processes: int


async def run(config: Config, faults: int, seed: int) -> Report:
    """Break engines `faults` times under load. The seed decides requests, engines, faults and moments."""
    before = set(children(os.getpid()))
    asked = requests(REQUESTS, seed)
    async with serving.open(config, print) as deployment:
        router = deployment.router
        expected = [await answer(router, generation) for generation in asked]
        began = time.monotonic()
        crowd = Crowd(router, asked, expected, seed)
        killer = Killer(router, crowd, seed)
        clients = asyncio.create_task(crowd.run(CLIENTS))
        await killer.run(faults)
        crowd.stop()
        await clients
        await settle(router)
        stray = len(set(children(os.getpid())) - before) - len(router.engines())
        pages = router.pages()
        report = Report(
            seed=seed,
            seconds=time.monotonic() - began,
            faults=killer.faults,
            tally=crowd.tally,
            recomputed_tokens=router.tallies().recomputed_tokens,
            leaked_pages=pages["total"] - pages["free"],
            stray_processes=max(0, stray),
        )
    report.stray_processes += len(set(children(os.getpid())) - before)
    return report


async def answer(router: Router, generation: Generation) -> list[int]:
    return [token async for tokens in router.submit(generation) for token in tokens]


async def settle(router: Router) -> None:
    """Wait until every engine is back and every cancelled request has been let go."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        engines: list[dict[str, Any]] = router.engines()
        if all(fact["state"] == "ready" and not fact["running"] for fact in engines):
            return
        await asyncio.sleep(0.05)
