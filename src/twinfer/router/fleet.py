"""The engines' processes: started, introduced, watched, started again when they die."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Literal

from twinfer.cluster.host import EngineProcess, Host
from twinfer.cluster.plan import EngineSpec
from twinfer.errors import EngineError
from twinfer.policy.restart import count_death, restart_delay

START_TIMEOUT = 120.0


class Member:
    """An engine's place in the fleet, over all processes that fill it."""

    def __init__(self, spec: EngineSpec, process: EngineProcess) -> None:
        self.spec = spec
        self.process = process
        self.state: Literal["starting", "ready", "restarting", "dead"] = "starting"
        self.since = time.monotonic()
        self.deaths = 0
        self.problem: str | None = None


class Fleet:
    """All engines of a deployment.

    `on_loss(engine, problem)` hears of an engine that died, after its state here has changed.
    """

    def __init__(self, host: Host, on_loss: Callable[[str, str], None]) -> None:
        self.members: dict[str, Member] = {}
        self._host = host
        self._on_loss = on_loss
        self._changed = asyncio.Event()
        self._timers: set[asyncio.TimerHandle] = set()

    def start(self, specs: Sequence[EngineSpec]) -> None:
        """Start a process for each engine."""
        for spec in specs:
            member = Member(spec, self._host.start(spec, 0))
            self.members[spec.id] = member
            self._watch(member)

    async def wait_ready(self) -> None:
        """Wait until every engine is ready.

        Raises:
            EngineError: one died or took too long on the way.
        """
        deadline = time.monotonic() + START_TIMEOUT
        while any(member.state != "ready" for member in self.members.values()):
            for member in self.members.values():
                if member.deaths:
                    raise EngineError(f"engine {member.spec.id} failed to start: {member.problem}")
            self._changed.clear()
            try:
                await asyncio.wait_for(self._changed.wait(), deadline - time.monotonic())
            except asyncio.TimeoutError:
                raise EngineError(f"the engines were not ready after {START_TIMEOUT:.0f} s") from None

    def by_address(self, address: str) -> Member | None:
        """The engine whose present process has this address."""
        member = self.members.get(address.rpartition("/")[0])
        return member if member and member.process.address == address else None

    def set_ready(self, member: Member) -> None:
        """The engine has built its model."""
        member.state = "ready"
        member.since = time.monotonic()
        self._changed.set()

    def serves(self) -> bool:
        """Whether prompts and answers both have an engine, now or after a restart."""
        roles = {member.spec.role for member in self.members.values() if member.state != "dead"}
        return "mixed" in roles or {"prefill", "decode"} <= roles

    def ready(self) -> bool:
        """Whether prompts and answers both have an engine now."""
        roles = {member.spec.role for member in self.members.values() if member.state == "ready"}
        return "mixed" in roles or {"prefill", "decode"} <= roles

    def close(self) -> None:
        """End all processes. Idempotent."""
        for timer in self._timers:
            timer.cancel()
        for member in self.members.values():
            member.process.end()
            member.state = "dead"

    def _watch(self, member: Member) -> None:
        member.process.on_exit(lambda code: self._exited(member, code))

    def _exited(self, member: Member, code: int) -> None:
        lifetime = time.monotonic() - member.since if member.state == "ready" else 0.0
        member.deaths = count_death(member.deaths, lifetime)
        member.problem = member.problem or _describe_exit(code)
        delay = restart_delay(member.deaths)
        member.state = "dead" if delay is None else "restarting"
        self._changed.set()
        self._on_loss(member.spec.id, member.problem)
        if delay is not None:
            loop = asyncio.get_running_loop()
            self._timers.add(loop.call_later(delay, self._restart, member))

    def _restart(self, member: Member) -> None:
        member.process = self._host.start(member.spec, member.process.attempt + 1)
        member.state = "starting"
        member.problem = None
        self._watch(member)


def _describe_exit(code: int) -> str:
    return f"killed by signal {-code}" if code < 0 else f"exit code {code}"
