"""What is done while there are no requests: the pool's memory is put on large pages."""

from __future__ import annotations

import asyncio

from twinfer.kv.gathering import Gathering
from twinfer.router.core import Core


class Idle:
    """Work for a router without requests. It pauses when one comes, after a few milliseconds at most."""

    def __init__(self, core: Core, gathering: Gathering) -> None:
        self._core = core
        self._gathering = gathering
        self._open = False
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """From now on the router has time for it."""
        self._open = True
        self.note()

    def note(self) -> None:
        """Requests have come or gone."""
        if self._has_work() and (self._task is None or self._task.done()):
            self._task = asyncio.create_task(self._work())

    def close(self) -> None:
        """Stop for good, and let the pool's memory go. Idempotent."""
        self._open = False
        self._gathering.close()

    def _has_work(self) -> bool:
        idle = self._open and not self._core.requests
        return idle and self._gathering.behind(self._core.memory.ledger.reached)

    async def _work(self) -> None:
        while self._has_work():
            await asyncio.to_thread(self._gathering.advance)
