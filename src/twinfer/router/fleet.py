"""The engines' processes: started, introduced, watched, started again when they die or hang."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Sequence
from typing import Literal

from twinfer.cluster.host import EngineProcess, Host
from twinfer.cluster.plan import EngineSpec
from twinfer.errors import EngineError
from twinfer.kv.board import Slot
from twinfer.messages import LINK_LOST, MAX_FRAME
from twinfer.policy.health import hung
from twinfer.policy.restart import count_death, restart_delay

START_TIMEOUT = 120.0
LOOK_INTERVAL = 0.25


class Member:
    """An engine's place in the fleet, over all processes that fill it.

    `problem` is why the last process ended, until another is ready; `told` is what is known to be wrong
    with the present one.
    """

    def __init__(self, spec: EngineSpec, number: int, slot: Slot) -> None:
        self.spec = spec
        self.number = number
        self.slot = slot
        self.process: EngineProcess
        self.state: Literal["starting", "ready", "restarting", "dead"] = "starting"
        self.since = time.monotonic()
        self.deaths = 0
        self.problem: str | None = None
        self.told: str | None = None
        self.exit_code = 0
        self.greeted = False
        self.trusted = True

    @property
    def owner(self) -> int:
        """The number by which the present process owns its slot on the board."""
        return self.process.attempt


class Fleet:
    """All engines of a deployment.

    `on_loss(member, in_flight)` hears of an engine that is gone, after its state here has changed,
    with the requests that its last step carried, and the tokens of each.
    """

    def __init__(self, host: Host, on_loss: Callable[[Member, dict[int, int]], None]) -> None:
        self.members: dict[str, Member] = {}
        self._host = host
        self._on_loss = on_loss
        self._changed = asyncio.Event()
        self._timers: set[asyncio.TimerHandle] = set()
        self._attempts = itertools.count(1)
        self._last_look = time.monotonic()

    def start(self, specs: Sequence[EngineSpec], slots: Sequence[Slot]) -> None:
        """Start a process for each engine, with its slot on the board."""
        for number, (spec, slot) in enumerate(zip(specs, slots, strict=True)):
            self.members[spec.id] = Member(spec, number, slot)
            self._launch(self.members[spec.id])

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

    def watch(self) -> None:
        """Look after engines that hang, from now on, in the running event loop."""
        self._last_look = time.monotonic()
        self._later(LOOK_INTERVAL, self._look)

    def by_address(self, address: str) -> Member | None:
        """The engine whose present process has this address."""
        member = self.members.get(address.rpartition("/")[0])
        return member if member and member.process.address == address else None

    def issued(self, address: str) -> bool:
        """Whether some process of a member, present or past, has or had this address."""
        name, _, attempt = address.rpartition("/")
        member = self.members.get(name)
        return member is not None and attempt.isdecimal() and 0 < int(attempt) <= member.process.attempt

    def distrust(self, member: Member, problem: str) -> None:
        """Use nothing more that the engine's process says, and kill it; it is then lost like any other."""
        member.trusted = False
        member.told = problem
        member.process.kill()

    def set_ready(self, member: Member) -> None:
        """The engine has built its model."""
        member.state = "ready"
        member.since = time.monotonic()
        member.problem = None
        self._changed.set()

    def serves(self) -> bool:
        """Whether any engine is left, now or after a restart."""
        return any(member.state != "dead" for member in self.members.values())

    def ready(self) -> bool:
        """Whether any engine takes requests now; a single one serves both phases if it must."""
        return any(member.state == "ready" for member in self.members.values())

    def problems(self) -> list[str]:
        """What is wrong with engines that are not ready, a line each."""
        return [
            f"engine {member.spec.id} is {member.state}: {member.problem or 'not ready yet'}"
            for member in self.members.values()
            if member.state != "ready"
        ]

    def close(self) -> None:
        """End all processes. Idempotent."""
        for timer in self._timers:
            timer.cancel()
        for member in self.members.values():
            member.process.end()
            member.state = "dead"

    def _launch(self, member: Member) -> None:
        member.process = self._host.start(member.spec, next(self._attempts))
        member.state = "starting"
        member.greeted = False
        member.trusted = True
        member.told = None
        member.since = time.monotonic()
        member.slot.open(member.owner, time.monotonic_ns())
        process = member.process
        process.on_exit(lambda code: self._exited(member, code))

    def _exited(self, member: Member, code: int) -> None:
        lifetime = time.monotonic() - member.since if member.state == "ready" else 0.0
        member.deaths = count_death(member.deaths, lifetime)
        member.problem = member.told or _describe_exit(code)
        member.exit_code = code
        delay = restart_delay(member.deaths)
        member.state = "dead" if delay is None else "restarting"
        self._changed.set()
        if delay is not None:
            self._later(delay, lambda: self._launch(member))
        self._on_loss(member, member.slot.in_flight)

    def _look(self) -> None:
        now = time.monotonic()
        for member in self.members.values():
            silence = now - member.slot.beat / 1e9
            if member.state == "ready" and hung(silence, now - self._last_look, LOOK_INTERVAL):
                # Its requests are given away when the process is gone for good, not before.
                member.told = f"no sign of life for {silence:.1f} s"
                member.process.kill()
        self._last_look = now
        self._later(LOOK_INTERVAL, self._look)

    def _later(self, delay: float, act: Callable[[], None]) -> None:
        def run() -> None:
            self._timers.discard(timer)
            act()

        timer = asyncio.get_running_loop().call_later(delay, run)
        self._timers.add(timer)


def _describe_exit(code: int) -> str:
    if code == LINK_LOST:
        return f"its link was cut, as happens after a message of over {MAX_FRAME >> 20} MiB"
    return f"killed by signal {-code}" if code < 0 else f"exit code {code}"
