"""The owner of all state: every request, every page, every engine's load.

It has no clock, no socket and no task: events come in with their time, messages for engines go into
`outbox`, ended requests into `ended`. The live router, the tests and a simulator drive it alike.

A request's way: `submit` → `_schedule` → `_place` (prefill) → `on_step`, first token → `_place` (decode)
→ `on_step` … → `_end`. Whatever interrupts it ends in `_requeue`, and `_place` takes it up from there.
"""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Mapping, Sequence

from twinfer.messages import Cancel, Decode, Finish, Grant, Prefill, Role, Step, ToEngine
from twinfer.policy.costs import Answers, Between
from twinfer.policy.overload import expected_ttft
from twinfer.policy.poison import GUILTY
from twinfer.policy.preemption import choose_victim
from twinfer.policy.queueing import is_late, turn
from twinfer.policy.routing import route_decode, route_prefill
from twinfer.policy.slots import Slots
from twinfer.router.engines import EngineView, Phase, candidates
from twinfer.router.memory import Memory
from twinfer.router.placing import Placing, find_decode_engine
from twinfer.router.request import Departure, Request, State

REASONS: dict[int, str] = {Finish.STOP: "stop", Finish.LENGTH: "length"}


class Tallies:
    """What went differently than it should, counted since the start."""

    def __init__(self) -> None:
        self.preemptions = 0
        self.moves = 0
        self.placed = 0
        self.losses = 0
        self.recomputed_tokens = 0
        self.stale = 0
        self.bad_messages = 0


class Core:
    """State and its transitions.

    `slots` requests may decode on one engine at a time, and no more than keep `slo_tpot`; `backlog` prompt
    tokens are sent ahead to one prefill engine. With `placing`, decode engines compute prompts where that is
    sooner.
    """

    def __init__(
        self,
        memory: Memory,
        *,
        slots: int,
        backlog: int,
        placing: Placing | None = None,
        slo_tpot: float | None = None,
    ) -> None:
        self.memory = memory
        self.engines: dict[str, EngineView] = {}
        self.requests: dict[int, Request] = {}
        self.queue: list[Request] = []
        self._in_time: dict[int, Request] = {}  # with a time when the first token is due, and not late yet
        self.outbox: list[tuple[str, ToEngine]] = []
        self.ended: list[Request] = []
        self.tallies = Tallies()
        self.latest = 0  # the newest request's number; numbers count up
        self.slots = Slots(slots, slo_tpot)
        self._backlog = backlog
        self._placing = placing

    def oldest_lease(self, now: float) -> float:
        """Seconds since the oldest lease began; 0 when there is none."""
        lessees = self.memory.ledger.lessees
        return max((now - self.requests[number].leased_at for number in lessees), default=0.0)

    def expected_ttft(self, request: Request) -> float:
        """Seconds until a new request would have its first token, from the queue and the measured rates."""
        self.memory.foresee(request)
        self._waits(request)
        return self._expected_ttft(request.turn, request.remaining)

    def least_ttft(self, priority: int, now: float) -> float:
        """As `expected_ttft`, of the shortest request that could come now."""
        return self._expected_ttft((turn(now, 1, priority), self.latest + 1), 1)

    def _expected_ttft(self, turn: tuple[float, int], own: int) -> float:
        ahead = sum(request.remaining for request in self._prompts() if request.turn < turn)
        rate = sum(engine.costs.rate for engine in candidates(self.engines.values(), "prefill"))
        waiting = sum(request.turn < turn for request in self.queue)
        return expected_ttft(ahead, own, rate, self.slots.wait(self._decode_costs, self._running, waiting))

    @property
    def _decode_costs(self) -> list[Between]:
        return [engine.between for engine in candidates(self.engines.values(), "decode")]

    @property
    def _running(self) -> Answers:
        """What decode would carry if all that have begun were in it."""
        begun = [len(r.tokens) for r in self.requests.values() if r.state is not State.QUEUED]
        return Answers(len(begun), sum(begun))

    # Requests come and go

    def submit(self, request: Request, now: float) -> None:
        """A new request, already checked."""
        request.timeline.arrived = now
        self.latest = request.id
        self.requests[request.id] = request
        if request.due < math.inf:
            self._in_time[request.id] = request
        self._enqueue(request)
        self._schedule(now)

    def cancel(self, number: int, now: float, reason: str = "cancelled") -> None:
        """Nobody wants the rest. Idempotent; unknown numbers are ignored."""
        request = self.requests.get(number)
        if request is None or request.finish_reason is not None:
            return
        if request.state is State.QUEUED:
            self._end(request, reason, now)
        else:
            self._finish(request, reason, now)
            self._leave(request, Departure.END)
        self._schedule(now)

    def fail_all(self, message: str, now: float) -> None:
        """No engine is left that could serve: end every request with an error."""
        for request in list(self.requests.values()):
            if request.finish_reason is None:
                request.error = message
            self._end(request, request.finish_reason or "error", now)

    # What engines report

    def on_step(self, engine: str, step: Step, now: float) -> None:
        """An engine has computed a step."""
        view = self.engines[engine]
        others = [other for other in self.engines.values() if other is not view]
        view.count(step, helped=bool(others) and not any(other.held for other in others))
        if not step.batch:
            self.slots.note(step.ended - step.began, len(step.requests))
        for number, computed in step.chunks:
            request = view.get(number)
            if request is not None:
                request.computed = computed
                request.timeline.prefill_began = request.timeline.prefill_began or step.began
                self.memory.publish(request)
        for number, token, finish in zip(step.requests, step.tokens, step.finishes, strict=True):
            self._on_token(view, number, token, finish, step, now)
        self._schedule(now)

    def on_released(self, number: int, placement: int, now: float) -> None:
        """An engine no longer touches the pages of a request, as it was placed there."""
        request = self.requests.get(number)
        if request is None or request.state is not State.LEAVING or request.placement != placement:
            return
        if request.departure is Departure.END:
            self._end(request, request.finish_reason or "cancelled", now)
        else:
            self._requeue(request)
        self._schedule(now)

    def on_stale(self, engine: str, numbers: list[int], now: float) -> None:
        """Pages of these requests were not what they should be: nothing in them is trusted any more."""
        view = self.engines[engine]
        for request in [request for number in numbers if (request := view.get(number))]:
            self.tallies.stale += 1
            self.memory.forget(request)
            if request.finish_reason is not None:
                self._end(request, request.finish_reason, now)
            else:
                self._requeue(request)
        self._schedule(now)

    # Engines come, go and change

    def add_engine(self, engine: str, role: Role, cores: Sequence[tuple[int, bool]], now: float) -> None:
        """An engine is ready for requests; its threads are on `cores`, each with whether it is lent."""
        self.engines[engine] = EngineView(engine, role, cores=list(cores))
        self._rebalance()
        self._schedule(now)

    def set_role(self, engine: str, role: Role, now: float) -> None:
        """The engine takes this role; requests that do not fit it move to where they do."""
        self.engines[engine].role = role
        self._rebalance()
        self._schedule(now)

    def set_draining(self, engine: str, draining: bool, now: float) -> None:
        """The engine gets no more requests and those that it has move on; or it is taken back."""
        self.engines[engine].draining = draining
        self._rebalance()
        self._schedule(now)

    def lose_engine(self, engine: str, in_flight: Mapping[int, int], suspicion: int, now: float) -> None:
        """An engine's process is gone; `in_flight` were in its last step, with so many tokens each.

        Its requests go on elsewhere, on the KV that is there. `suspicion` is how far this speaks against
        those in the step (`policy.poison`); one that has gathered enough at the same token is failed.
        """
        view = self.engines.pop(engine, None)
        if view is None:
            return
        self.tallies.losses += 1
        for request in view.held:
            if request.finish_reason is not None:
                self._end(request, request.finish_reason, now)
                continue
            if request.id in in_flight:
                # Having passed the step of an earlier death, it was not what caused that.
                request.suspicion = suspicion + (request.suspicion if request.suspect else 0)
                request.lost_at = request.computed
            if request.suspicion >= GUILTY and request.id in in_flight:
                request.error = "request failed: one engine after the other died while computing it"
                self._end(request, "error", now)
            else:
                left = len(request.tokens) - request.computed
                self.tallies.recomputed_tokens += min(in_flight.get(request.id, 0), left)
                self._requeue(request)
        self._schedule(now)

    # Decisions

    def _schedule(self, now: float) -> None:
        """Set going again what was interrupted, hand out pages, then start what is new."""
        self._note_late(now)
        for request in [request for request in self.queue if self.memory.ledger.held(request.id)]:
            if self._place(request, now):
                self.queue.remove(request)
        for request in sorted(self.memory.starved.values(), key=lambda request: request.rank):
            self._grow(request)
        stuck = self.memory.stuck()
        if stuck:
            self._preempt(stuck)
            return
        for request in [request for request in self.queue if not self.memory.ledger.held(request.id)]:
            if self._waits(request):
                continue
            if not self._admit(request, now):
                break
            self.queue.remove(request)

    def _note_late(self, now: float) -> None:
        """Requests that can no longer be in time let the others go first."""
        if not self._in_time:
            return
        engines = candidates(self.engines.values(), "prefill")
        rate = max((engine.costs.rate for engine in engines), default=0.0)
        late = [r for r in self._in_time.values() if is_late(now, r.remaining, rate, r.due)]
        for request in late:
            request.late = True
            del self._in_time[request.id]
        if late:
            self.queue.sort(key=lambda request: request.turn)

    def _prompts(self) -> list[Request]:
        """All requests that wait or whose prompt is being computed."""
        return [*self.queue, *self._prefilling()]

    def _prefilling(self) -> list[Request]:
        return [request for engine in self.engines.values() for request in engine.prefilling.values()]

    def _admit(self, request: Request, now: float) -> bool:
        if self._find_engine(request, "prefill", now) is None:
            return False
        running = self._running
        slots = self.slots.on(self._decode_costs, running)
        if not self.memory.admit(request, running.count, slots):
            return False
        request.leased_at = now
        self.tallies.recomputed_tokens += max(0, request.given_up - request.computed)
        request.given_up = 0
        return self._place(request, now)

    def _waits(self, request: Request) -> bool:
        """Whether a prompt that begins alike is being computed and is worth waiting for."""
        request.awaited = 0
        return any(
            other.state is State.PREFILLING and self.memory.waits(request, other)
            for other in self._prefilling()
        )

    def _place(self, request: Request, now: float) -> bool:
        """Send a request with its page table to an engine of the phase it is in; no KV moves.

        False when no engine takes it now. A request in which an engine died has no other such beside
        it, so that if this one dies too, it is known which of them does it.
        """
        phase: Phase = "prefill" if self.memory.wants_prefill(request) else "decode"
        found = self._find_engine(request, phase, now)
        if found is None:
            return False
        name, chunk = found
        request.engine = name
        request.placement += 1
        pages, stamps = self.memory.lease(request)
        if phase == "prefill":
            request.move(State.PREFILLING)
            request.timeline.prefill_sent = request.timeline.prefill_sent or now
            self.engines[name].take_prompt(request, now)
            self.tallies.placed += chunk > 0
            tokens = request.tokens[request.computed : self.memory.prefilled(request)]
            self._send(
                name, Prefill(request.id, tokens, request.computed, pages, stamps, request.task, chunk)
            )
        else:
            request.move(State.DECODING)
            request.timeline.decode_sent = request.timeline.decode_sent or now
            self.engines[name].decoding[request.id] = request
            tokens = request.tokens[request.computed :]
            self._send(name, Decode(request.id, tokens, request.computed, pages, stamps, request.task))
            self._grow(request)
        return True

    def _find_engine(self, request: Request, phase: Phase, now: float) -> tuple[str, int] | None:
        """An engine, and how many prompt tokens it is to compute in a step; 0 for as many as it may.

        While others wait in the queue, prompts are computed where they are computed best.
        """
        alone = not any(queued is not request for queued in self.queue)
        if self._placing and phase == "prefill" and alone and not (request.begun or request.suspect):
            placed = find_decode_engine(self._placing, self.engines.values(), request, now)
            if placed is not None:
                return placed
        name = self._route(request, phase)
        return None if name is None else (name, 0)

    def _route(self, request: Request, phase: Phase) -> str | None:
        engines = candidates(self.engines.values(), phase)
        if request.suspect:
            engines = [engine for engine in engines if not any(r.suspect for r in engine.held)]
        loads = [engine.load_before(request) for engine in engines]
        return route_prefill(loads, self._backlog) if phase == "prefill" else route_decode(loads)

    def _grow(self, request: Request) -> None:
        pages = self.memory.grow(request)
        if pages and request.engine is not None and request.state is State.DECODING:
            self._send(request.engine, Grant(request.id, pages, self.memory.ledger.stamps(pages)))

    def _preempt(self, stuck: list[Request]) -> None:
        """Take the pages of the last running request by rank; one at a time, since one page helps already.

        As long as one gets on, the others wait with their pages: it will end, or be stuck itself.
        """
        decoding = [r for engine in self.engines.values() for r in engine.decoding.values()]
        leaving = any(request.state is State.LEAVING for request in self.requests.values())
        if leaving or len(stuck) < len(decoding):
            return
        victim = choose_victim(request.rank for request in decoding)
        if victim is not None:
            self.tallies.preemptions += 1
            self._leave(self.requests[victim], Departure.PREEMPT)

    def _rebalance(self) -> None:
        """Move requests off engines that are not made for their phase, where there are others that are."""
        for view in self.engines.values():
            misplaced: list[Request] = []
            if view not in candidates(self.engines.values(), "prefill"):
                misplaced += view.prefilling.values()
            if view not in candidates(self.engines.values(), "decode"):
                misplaced += view.decoding.values()
            for request in misplaced:
                if request.state is not State.LEAVING:
                    self.tallies.moves += 1
                    self._leave(request, Departure.MOVE)

    # Transitions

    def _on_token(
        self, view: EngineView, number: int, token: int, finish: int, step: Step, now: float
    ) -> None:
        request = view.get(number)
        if request is None or request.finish_reason is not None:
            return
        first = number in view.prefilling
        request.computed = self.memory.prefilled(request) if first else len(request.tokens)
        if request.computed == len(request.tokens):
            request.tokens.append(token)
            self._in_time.pop(number, None)
            _note_times(request, first, step, now)
            request.on_tokens(token)
        if finish:
            self.slots.count(len(request.tokens) - request.prompt_tokens)
            self._end(request, REASONS[finish], now)
        elif first:
            self.memory.publish(request)
            self._hand_over(request, now)
        elif request.state is State.DECODING:
            self._grow(request)

    def _hand_over(self, request: Request, now: float) -> None:
        """Prefill is done with it, and its engine has let it go by itself."""
        self._forget_engine(request)
        if request.state is State.LEAVING or not self._place(request, now):
            self._requeue(request)

    def _leave(self, request: Request, departure: Departure) -> None:
        """Ask the engine to let the request go; its pages stay leased until the engine has."""
        self.memory.starved.pop(request.id, None)
        request.departure = departure
        if request.state is not State.LEAVING:
            request.move(State.LEAVING)
            if request.engine is not None:
                self._send(request.engine, Cancel(request.id, request.placement))

    def _requeue(self, request: Request) -> None:
        """Back to the queue, at its place by turn; with its pages, unless those are what is wanted."""
        self.memory.starved.pop(request.id, None)
        self._forget_engine(request)
        if request.departure is Departure.PREEMPT:
            self.memory.give_up(request)
        request.move(State.QUEUED)
        request.departure = None
        self._enqueue(request)

    def _enqueue(self, request: Request) -> None:
        if not self.memory.ledger.held(request.id):
            self.memory.foresee(request)
        insort(self.queue, request, key=lambda queued: queued.turn)

    def _end(self, request: Request, reason: str, now: float) -> None:
        if request.state is State.QUEUED:
            self.queue.remove(request)
        self._forget_engine(request)
        self.memory.give_up(request)
        request.move(State.DONE)
        del self.requests[request.id]
        self._in_time.pop(request.id, None)
        self._finish(request, reason, now)
        self.ended.append(request)

    def _finish(self, request: Request, reason: str, now: float) -> None:
        """Tell the client; the pages may still be leased."""
        if request.finish_reason is None:
            request.finish_reason = reason
            request.timeline.finished = now
            request.on_end()

    def _forget_engine(self, request: Request) -> None:
        if request.engine in self.engines:
            self.engines[request.engine].drop(request)
        request.engine = None

    def _send(self, engine: str, message: ToEngine) -> None:
        self.outbox.append((engine, message))


def _note_times(request: Request, first: bool, step: Step, now: float) -> None:
    times = request.timeline
    times.tokens += 1
    times.last_token = now
    if not first:
        times.decode_began = times.decode_began or step.began
    elif not times.first_token:
        times.prefill_began = times.prefill_began or step.began
        times.prefill_ended = step.ended
        times.first_token = now
