"""Breaks engines at random moments, and measures how long their requests wait for the next token."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from collections.abc import Callable
from typing import Any

import msgspec

from twinfer.router.router import Router

from .workload import Crowd, Watched

SIGNALS = {"SIGKILL": signal.SIGKILL, "SIGSEGV": signal.SIGSEGV, "SIGSTOP": signal.SIGSTOP}
KINDS = ("SIGKILL", "SIGKILL", "SIGKILL", "SIGSEGV", "SIGSTOP", "drain", "role")


class Fault(msgspec.Struct):
    """What was done to which engine's process and when, and how its requests waited for their next token.

    `waits` are the seconds of those during which there was always another engine to go on with,
    `alone` those of the others, for which one had to be started first.
    """

    kind: str
    engine: str
    pid: int
    at: float
    waits: list[float] = msgspec.field(default_factory=list[float])
    alone: list[float] = msgspec.field(default_factory=list[float])


class Killer:
    """Picks engine, fault and moment from `seed`."""

    def __init__(self, router: Router, crowd: Crowd, seed: int) -> None:
        self.faults: list[Fault] = []
        self._router = router
        self._crowd = crowd
        self._source = random.Random(seed)
        self._seen: dict[str, tuple[int, str]] = {}
        self._waiting: set[asyncio.Task[None]] = set()
        self._broken: set[int] = set()

    async def run(self, faults: int) -> None:
        """Until there have been so many faults and all waits are over."""
        while len(self.faults) < faults:
            await asyncio.sleep(self._source.uniform(0.2, 1.8))
            engines = self._router.engines()
            if all(fact["state"] == "dead" for fact in engines):
                break
            settled = [fact for fact in engines if self._settled(fact)]
            if settled:
                self._break(self._source.choice(settled), self._source.choice(KINDS))
        await asyncio.gather(*self._waiting)

    def _settled(self, engine: dict[str, Any]) -> bool:
        """Whether this process was ready at the last look already, and nothing has been done to it: one that
        is killed as soon as it is up, again and again, is given up, and one that hangs feels no other fault,
        which is not what is tried here."""
        seen = self._seen.get(engine["id"])
        self._seen[engine["id"]] = (engine["pid"], engine["state"])
        sound = engine["state"] == "ready" and engine["pid"] not in self._broken
        return sound and seen == (engine["pid"], "ready")

    def _break(self, engine: dict[str, Any], kind: str) -> None:
        fault = Fault(kind, engine["id"], engine["pid"], time.monotonic())
        hit = [w for w in self._crowd.live.values() if w.ticket.request.engine == engine["id"]]
        self.faults.append(fault)
        if kind in SIGNALS:
            self._broken.add(engine["pid"])
            os.kill(engine["pid"], SIGNALS[kind])
        elif kind == "drain":
            self._router.drain(engine["id"], True)
            self._later(1.0, lambda: self._resume(engine["id"]))
        else:
            role = engine["role"]
            self._router.set_role(engine["id"], "mixed")
            self._later(1.0, lambda: self._back(engine["id"], role))
        for watched in hit:
            self._keep(asyncio.create_task(self._measure(fault, watched)))

    async def _measure(self, fault: Fault, watched: Watched) -> None:
        """Note when the next token comes, unless the client has hung up."""
        seen, helped = len(watched.times), True
        while len(watched.times) == seen:
            if watched.ticket.finish_reason is not None:
                return
            helped = helped and self._another(fault)
            await asyncio.sleep(0.004)
        (fault.waits if helped else fault.alone).append(watched.times[seen] - fault.at)

    def _another(self, fault: Fault) -> bool:
        """Whether an engine is ready now that is neither the one at fault nor broken itself."""
        out = {fault.pid, *self._broken}
        return any(fact["state"] == "ready" and fact["pid"] not in out for fact in self._router.engines())

    def _later(self, delay: float, act: Callable[[], None]) -> None:
        async def wait() -> None:
            await asyncio.sleep(delay)
            act()

        self._keep(asyncio.create_task(wait()))

    def _keep(self, task: asyncio.Task[None]) -> None:
        self._waiting.add(task)
        task.add_done_callback(self._waiting.discard)

    def _resume(self, engine: str) -> None:
        if any(fact["id"] == engine and fact["state"] == "draining" for fact in self._router.engines()):
            self._router.drain(engine, False)

    def _back(self, engine: str, role: Any) -> None:
        if any(fact["id"] == engine and fact["state"] == "ready" for fact in self._router.engines()):
            self._router.set_role(engine, role)
