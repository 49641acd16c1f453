"""The live router: `Core` with a clock, a socket and engine processes.

It knows token ids and pages, no text and no tensors. Everything runs in one event loop.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from twinfer.cluster.host import Host
from twinfer.cluster.plan import EngineSpec, team_cores
from twinfer.errors import BadMessageError, EngineError, NotFoundError, OverloadedError, one_line
from twinfer.kv.board import Slot
from twinfer.kv.gathering import Gathering
from twinfer.messages import (
    LINK_LOST,
    Failed,
    FromEngine,
    Hello,
    Load,
    Ready,
    Released,
    Role,
    Stale,
    Step,
    Usage,
)
from twinfer.policy.overload import retry_after
from twinfer.policy.poison import suspicion
from twinfer.router.check import check
from twinfer.router.core import Core, Tallies
from twinfer.router.engines import EngineView
from twinfer.router.fleet import Fleet, Member
from twinfer.router.generation import Generation, check_prompt
from twinfer.router.idle import Idle
from twinfer.router.links import Links
from twinfer.router.metrics import Metrics
from twinfer.router.request import Request
from twinfer.router.throughput import Throughput
from twinfer.router.ticket import Ticket
from twinfer.router.validation import check_hello, check_released, check_stale, check_step, check_usage
from twinfer.timeline import Timeline


class Router:
    """Takes generations, gives tickets, and sees every request through.

    `start` launches the engine processes, `load` gives them their model, `close` ends everything.
    """

    def __init__(
        self,
        core: Core,
        links: Links,
        host: Host,
        *,
        max_model_len: int,
        vocab: int,
        gathering: Gathering,
        slo_ttft: float | None = None,
        check: bool = False,
    ) -> None:
        self.max_model_len = max_model_len
        self._vocab = vocab
        self._check = check
        self._slo_ttft = slo_ttft
        self.metrics = Metrics(core)
        self._throughput = Throughput(time.monotonic())
        self._core = core
        self._links = links
        self._fleet = Fleet(host, self._on_loss)
        self._idle = Idle(core, gathering)
        self._load: Callable[[int, int], Load] | None = None
        self._numbers = itertools.count(1)
        self._cores: dict[str, list[tuple[int, bool]]] = {}
        self._receiver: asyncio.Task[None] | None = None

    def start(self, specs: Sequence[EngineSpec], slots: Sequence[Slot]) -> None:
        """Start the engine processes; they come up while the caller prepares their model."""
        self._cores = {spec.id: team_cores(specs, number) for number, spec in enumerate(specs)}
        self._fleet.start(specs, slots)

    async def load(self, load: Callable[[int, int], Load]) -> None:
        """Give every engine its model and wait until all are ready.

        `load` makes the message for an engine's number, and the number of the process that fills it.

        Raises:
            EngineError: an engine failed to start.
        """
        self._load = load
        self._receiver = asyncio.create_task(self._receive())
        await self._fleet.wait_ready()
        self._fleet.watch()
        self._idle.start()

    async def close(self) -> None:
        """End all requests and engines. Idempotent.

        Raises:
            Exception: the router had broken down before, with this.
        """
        self._idle.close()
        receiver, self._receiver = self._receiver, None
        if receiver is not None:
            receiver.cancel()
            await asyncio.wait([receiver])
        self._core.fail_all("the server was shut down", time.monotonic())
        self._fleet.close()
        self._links.close()
        if receiver is not None and not receiver.cancelled():
            receiver.result()

    @property
    def ready(self) -> bool:
        """Whether a request would be served now."""
        return self._fleet.ready()

    def submit(self, generation: Generation) -> Ticket:
        """Take a request.

        Raises:
            RequestError: it can never be served.
            OverloadedError: its first token would come too late to keep the target.
            EngineError: no engine is left to serve it.
        """
        check_prompt(generation.prompt, self.max_model_len, "prompt")
        if not self._fleet.serves():
            raise EngineError("no engine is left that could serve; restart the server")
        ticket = Ticket()
        request = Request(
            id=next(self._numbers),
            generation=generation,
            max_length=min(len(generation.prompt) + generation.max_tokens, self.max_model_len),
            timeline=Timeline(),
            on_tokens=ticket.on_token,
            on_end=ticket.on_end,
            tokens=list(generation.prompt),
            slo_ttft=self._slo_ttft,
        )
        ticket.bind(request, lambda reason: self._cancel(request.id, reason))
        self._refuse_late(request)
        self._core.submit(request, time.monotonic())
        self._flush()
        if generation.timeout is not None:
            ticket.expire_after(generation.timeout)
        return ticket

    def check_room(self, priority: int) -> None:
        """Refuse cheaply, before a prompt is looked at, what `submit` would refuse however short it is.

        Raises:
            OverloadedError: as in `submit`.
        """
        if self._slo_ttft is not None:
            self._refuse_after(self._core.least_ttft(priority, time.monotonic()))

    def _refuse_late(self, request: Request) -> None:
        if self._slo_ttft is not None:
            request.timeline.arrived = time.monotonic()
            self._refuse_after(self._core.expected_ttft(request))

    def _refuse_after(self, expected: float) -> None:
        wait = retry_after(expected, self._slo_ttft)
        if wait is not None:
            raise OverloadedError(
                f"the first token would come after {expected:.1f} s, too late for the target of"
                f" {self._slo_ttft} s; try again in {wait:.0f} s",
                retry_after=wait,
            )

    @property
    def waiting(self) -> int:
        """Requests in the queue."""
        return len(self._core.queue)

    @property
    def retry_after(self) -> float:
        """Seconds that the queue will take, at the rate at which requests ended lately."""
        return self._throughput.seconds_for(self.waiting, time.monotonic())

    def engines(self) -> list[dict[str, Any]]:
        """Every engine, for people: id, role, pid, cores, state, its running and waiting requests.

        `core_seconds` has the processor time that it took on each core, also on those that are lent to it.
        """
        return [self._describe(member) for member in self._fleet.members.values()]

    def problems(self) -> list[str]:
        """What is wrong with engines that are not ready, a line each."""
        return self._fleet.problems()

    def pages(self) -> dict[str, int]:
        """Pages of the pool: in all, and those in no request's lease."""
        ledger = self._core.memory.ledger
        return {"total": ledger.total, "free": ledger.free}

    def tallies(self) -> Tallies:
        """What went differently than it should, counted since the start."""
        return self._core.tallies

    def drain(self, engine: str, draining: bool) -> None:
        """Move an engine's requests elsewhere and give it no more, or take it back.

        Raises:
            NotFoundError: no engine of this name is ready.
        """
        self._check_ready(engine)
        self._core.set_draining(engine, draining, time.monotonic())
        self._flush()

    def set_role(self, engine: str, role: Role) -> None:
        """Give an engine another role; requests that do not fit it move elsewhere at the next step.

        Raises:
            NotFoundError: no engine of this name is ready.
        """
        member = self._check_ready(engine)
        member.spec = msgspec.structs.replace(member.spec, role=role)
        self._core.set_role(engine, role, time.monotonic())
        self._flush()

    def _check_ready(self, engine: str) -> Member:
        member = self._fleet.members.get(engine)
        if member is None or engine not in self._core.engines:
            known = ", ".join(self._core.engines) or "none"
            raise NotFoundError(f"there is no ready engine '{engine}'; ready are: {known}", param="engine")
        return member

    def _describe(self, member: Member) -> dict[str, Any]:
        view = self._core.engines.get(member.spec.id)
        return {
            "id": member.spec.id,
            "role": member.spec.role,
            "pid": member.process.pid,
            "cores": member.spec.cores,
            "state": "draining" if view and view.draining else member.state,
            "running": len(view.held) if view else 0,
            "waiting": len(self._core.queue) if member.spec.role != "decode" else 0,
            "core_seconds": _describe_cores(view) if view else [],
        }

    def _cancel(self, number: int, reason: str) -> None:
        self._core.cancel(number, time.monotonic(), reason)
        self._flush()

    async def _receive(self) -> None:
        try:
            while True:
                self._hear(*await self._links.receive())
        except Exception as error:
            # A flaw of our own: better a clear end than requests that wait for ever.
            self._core.fail_all(f"the router broke down: {error!r}", time.monotonic())
            self._fleet.close()
            self._links.close()
            raise

    def _hear(self, address: str, message: FromEngine | BadMessageError) -> None:
        member = self._fleet.by_address(address)
        if member is None:
            # The last word of a process that was replaced, or a stranger.
            self._core.tallies.bad_messages += not self._fleet.issued(address)
            return
        if not member.trusted or member.state not in ("starting", "ready"):
            return
        try:
            self._handle(member, message)
        except BadMessageError as error:
            self._core.tallies.bad_messages += 1
            self._fleet.distrust(member, str(error))
        self._flush()

    def _handle(self, member: Member, message: FromEngine | BadMessageError) -> None:
        now, name = time.monotonic(), member.spec.id
        match message:
            case Step() if member.state == "ready":
                check_step(message, self._core.engines[name], self._vocab, now)
                self._core.on_step(name, message, now)
            case Usage() if member.state == "ready":
                view = self._core.engines[name]
                check_usage(message, view, now)
                view.usage = message
            case Released() if member.state == "ready":
                asked = self._core.requests.get(message.request)
                check_released(message, self._core.engines[name], asked, self._core.latest)
                self._core.on_released(message.request, message.placement, now)
            case Stale() if member.state == "ready":
                check_stale(message, self._core.engines[name])
                self._core.on_stale(name, message.requests, now)
            case Hello() if not member.greeted:
                check_hello(message, member.process.pid)
                assert self._load is not None
                member.greeted = True
                self._links.send(member.process.address, self._load(member.number, member.owner))
            case Ready() if member.greeted and member.state == "starting":
                self._fleet.set_ready(member)
                self._core.add_engine(name, member.spec.role, self._cores[name], now)
            case Failed():
                member.told = one_line(message.message) or "it gave no reason"
            case BadMessageError():
                raise message
            case _:
                raise BadMessageError(f"bad message: {type(message).__name__} from an engine {member.state}")

    def _on_loss(self, member: Member, in_flight: dict[int, int]) -> None:
        now = time.monotonic()
        self._core.tallies.bad_messages += member.exit_code == LINK_LOST
        weight = suspicion(member.exit_code, member.trusted)
        self._core.lose_engine(member.spec.id, in_flight, weight, now)
        if not self._fleet.serves():
            self._core.fail_all(f"engine {member.spec.id} is lost: {member.problem}", now)
        self._flush()

    def _flush(self) -> None:
        """Send what the core decided, and count what ended."""
        outbox, self._core.outbox = self._core.outbox, []
        for engine, message in outbox:
            self._links.send(self._fleet.members[engine].process.address, message)
        ended, self._core.ended = self._core.ended, []
        for request in ended:
            self.metrics.observe(request)
        if ended:
            self._throughput.count(len(ended), time.monotonic())
        self._idle.note()
        if self._check:
            check(self._core)


def _describe_cores(view: EngineView) -> list[dict[str, Any]]:
    return [
        {"core": core, "lent": lent, "seconds": round(seconds, 3)}
        for core, lent, seconds in view.core_seconds
    ]
