"""The owner of all state: every request, every page, every engine's load.

It has no clock, no socket and no task: events come in with their time, messages for engines go into
`outbox`, ended requests into `ended`. The live router, the tests and a simulator drive it alike.

A request's way: `submit` → `_admit` → `on_step` (first token, `_hand_over`) → `on_step` … → `_end`.
"""

from __future__ import annotations

from bisect import insort

import msgspec

from twinfer.messages import Cancel, Decode, Finish, Grant, Prefill, Role, Step, ToEngine
from twinfer.policy.admission import Room, admits
from twinfer.policy.pages import PageLedger, pages_for
from twinfer.policy.preemption import choose_victim
from twinfer.policy.prefix import chain_root, extend_chain
from twinfer.policy.routing import route_decode, route_prefill
from twinfer.router.engines import EngineView
from twinfer.router.request import Request, State

MAX_LOSSES = 2
REASONS = {Finish.STOP: "stop", Finish.LENGTH: "length"}


class Cache(msgspec.Struct, frozen=True):
    """Which KV may be taken up again, and by whom.

    Pages are shared among requests whose KV is computed alike: `root` names model and precision; None
    switches sharing off. Unless both phases have the `same_precision`, pages that decode wrote are not
    offered to prefill, since a cache hit must not change an answer.
    """

    root: str | None = None
    same_precision: bool = True


class Core:
    """State and its transitions.

    `pages` pages of `page_tokens` tokens; `slots` requests may decode on one engine at a time;
    `backlog` prompt tokens are sent ahead to one prefill engine. `cache` says which KV may be reused.
    """

    def __init__(self, *, pages: int, page_tokens: int, slots: int, backlog: int, cache: Cache) -> None:
        self.ledger = PageLedger(pages)
        self.engines: dict[str, EngineView] = {}
        self.requests: dict[int, Request] = {}
        self.queue: list[Request] = []
        self.outbox: list[tuple[str, ToEngine]] = []
        self.ended: list[Request] = []
        self.preemptions = 0
        self._starved: dict[int, Request] = {}
        self._page_tokens = page_tokens
        self._slots = slots
        self._backlog = backlog
        self._cache = cache

    # Events

    def add_engine(self, engine: str, role: Role, now: float) -> None:
        """An engine is ready for requests."""
        self.engines[engine] = EngineView(engine, role)
        self._schedule(now)

    def submit(self, request: Request, now: float) -> None:
        """A new request, already checked."""
        request.timeline.arrived = now
        self.requests[request.id] = request
        self._enqueue(request)
        self._schedule(now)

    def cancel(self, number: int, now: float) -> None:
        """The client does not want the rest. Idempotent; unknown numbers are ignored."""
        request = self.requests.get(number)
        if request is None or request.finish_reason is not None:
            return
        if request.state is State.QUEUED:
            self._end(request, "cancelled", now)
        else:
            request.preempted = False
            self._finish(request, "cancelled", now)
            self._leave(request)
        self._schedule(now)

    def on_step(self, engine: str, step: Step, now: float) -> None:
        """An engine has computed a step."""
        view = self.engines[engine]
        view.count(step)
        for number, computed in step.chunks:
            self._on_chunk(self._held(view, number), computed, step)
        for number, token, finish in zip(step.requests, step.tokens, step.finishes, strict=True):
            self._on_token(self._held(view, number), token, Finish(finish), step, now)
        self._schedule(now)

    def on_released(self, engine: str, numbers: list[int], now: float) -> None:
        """An engine no longer touches the pages of these requests."""
        for number in numbers:
            request = self.requests.get(number)
            if request is None or request.state is not State.LEAVING or request.engine != engine:
                continue
            if request.preempted:
                self._requeue(request)
            else:
                self._end(request, request.finish_reason or "cancelled", now)
        self._schedule(now)

    def lose_engine(self, engine: str, now: float) -> None:
        """An engine's process is gone. Its requests are computed again elsewhere, from their tokens.

        A request that has been lost with `MAX_LOSSES` engines is failed: it may be what kills them.
        """
        view = self.engines.pop(engine, None)
        if view is None:
            return
        for request in [*view.prefilling.values(), *view.decoding.values()]:
            request.losses += 1
            if request.finish_reason is not None:
                self._end(request, request.finish_reason, now)
            elif request.losses >= MAX_LOSSES:
                request.error = f"request failed: {request.losses} engines died while running it"
                self._end(request, "error", now)
            else:
                self._requeue(request)
        self._schedule(now)

    def fail_all(self, message: str, now: float) -> None:
        """No engine is left that could serve: end every request with an error."""
        for request in list(self.requests.values()):
            if request.finish_reason is None:
                request.error = message
            if request.state is not State.DONE:
                self._end(request, request.finish_reason or "error", now)

    @property
    def running(self) -> int:
        """Requests that are on an engine."""
        return len(self.requests) - len(self.queue)

    # Transitions

    def _held(self, view: EngineView, number: int) -> Request | None:
        """The request, if this engine holds it and it is still wanted there."""
        request = view.prefilling.get(number) or view.decoding.get(number)
        return request if request is not None and request.state is not State.LEAVING else None

    def _on_chunk(self, request: Request | None, computed: int, step: Step) -> None:
        if request is None:
            return
        request.computed = computed
        request.timeline.prefill_began = request.timeline.prefill_began or step.began

    def _on_token(self, request: Request | None, token: int, finish: Finish, step: Step, now: float) -> None:
        if request is None:
            return
        first = request.state is State.PREFILLING
        request.computed = self._prefilled(request) if first else len(request.tokens)
        if request.computed < len(request.tokens):  # the token is known: its KV was given up
            self._hand_over(request, now)
            return
        request.tokens.append(token)
        _note_times(request, step, now)
        request.on_tokens(token)
        if finish is not Finish.NONE:
            self._end(request, REASONS[finish], now)
        elif first:
            self._hand_over(request, now)
        else:
            self._grow(request)

    def _schedule(self, now: float) -> None:
        """Hand out pages: to requests that wait for one to go on, then to new ones."""
        for request in sorted(self._starved.values(), key=lambda request: request.order):
            self._grow(request)
        if any(self._stuck(request) for request in self._starved.values()):
            self._preempt()
            return
        while self.queue and self._admit(self.queue[0], now):
            self.queue.pop(0)

    def _admit(self, request: Request, now: float) -> bool:
        room = Room(
            self.ledger.free, self.running, self._slots * sum(e.decodes for e in self.engines.values())
        )
        engine = route_prefill((e.load for e in self.engines.values() if e.prefills), self._backlog)
        found = self._find_prefix(request)
        fresh = self._pages_ahead(request) - len(found)
        if engine is None or not admits(fresh + self.ledger.cost(found), room):
            return False
        self.ledger.share(request.id, found)
        self.ledger.grant(request.id, fresh)
        request.move(State.PREFILLING)
        request.computed = len(found) * self._page_tokens
        request.cached = request.computed if request.cached is None else request.cached
        request.engine = engine
        request.timeline.prefill_sent = now
        self.engines[engine].prefilling[request.id] = request
        lease = self.ledger.lease(request.id)
        tokens = request.tokens[request.computed : self._prefilled(request)]
        self._send(engine, Prefill(request.id, tokens, request.computed, lease, request.task))
        return True

    def _prefilled(self, request: Request) -> int:
        """How many of its tokens prefill computes: the answer's too where decode would do the same."""
        return len(request.tokens) if self._cache.same_precision else request.prompt_tokens

    def _find_prefix(self, request: Request) -> list[int]:
        """Pages that hold the beginning of what prefill has to compute; at least one token is left to it."""
        self._name_pages(request, self._prefilled(request))
        return self.ledger.find(request.keys[: (self._prefilled(request) - 1) // self._page_tokens])

    def _publish(self, request: Request) -> None:
        """Let others find the pages that are full."""
        known = min(request.computed, self._prefilled(request))
        self._name_pages(request, known)
        self.ledger.publish(request.id, request.keys[: known // self._page_tokens])

    def _name_pages(self, request: Request, known: int) -> None:
        if self._cache.root is not None:
            root = chain_root(self._cache.root, request.generation.cache_salt)
            extend_chain(request.keys, root, request.tokens[:known], self._page_tokens)

    def _hand_over(self, request: Request, now: float) -> None:
        """From prefill to decode: the page table crosses, no KV moves."""
        self._publish(request)
        self._forget_engine(request)
        engine = route_decode(e.load for e in self.engines.values() if e.decodes)
        if engine is None:
            self._requeue(request)
            return
        request.move(State.DECODING)
        request.engine = engine
        request.timeline.decode_sent = now
        self.engines[engine].decoding[request.id] = request
        lease = self.ledger.lease(request.id)
        tokens = request.tokens[request.computed :]
        self._send(engine, Decode(request.id, tokens, request.computed, lease, request.task))
        self._grow(request)

    def _grow(self, request: Request) -> None:
        """Grant the pages of the next tokens before they are needed."""
        missing = self._pages_ahead(request) - self.ledger.held(request.id)
        pages = self.ledger.grant(request.id, missing)
        if pages and request.engine is not None:
            self._send(request.engine, Grant(request.id, pages))
        if len(pages) < missing:
            self._starved[request.id] = request
        else:
            self._starved.pop(request.id, None)

    def _pages_ahead(self, request: Request) -> int:
        """Pages for what the request has and one page's worth of tokens more, if it may get so long."""
        return pages_for(min(len(request.tokens) + self._page_tokens, request.max_length), self._page_tokens)

    def _stuck(self, request: Request) -> bool:
        """Whether the request's next token has no page."""
        return pages_for(len(request.tokens), self._page_tokens) > self.ledger.held(request.id)

    def _preempt(self) -> None:
        """Take the pages of the newest running request; one at a time, since one page helps already."""
        if any(request.state is State.LEAVING for request in self.requests.values()):
            return
        victim = choose_victim(r.order for e in self.engines.values() for r in e.decoding.values())
        if victim is not None:
            self.preemptions += 1
            request = self.requests[victim]
            request.preempted = True
            self._leave(request)

    def _leave(self, request: Request) -> None:
        """Ask the engine to let the request go; its pages stay leased until the engine has."""
        self._starved.pop(request.id, None)
        if request.state is not State.LEAVING:
            request.move(State.LEAVING)
            if request.engine is not None:
                self._send(request.engine, Cancel(request.id))

    def _requeue(self, request: Request) -> None:
        """Back to the queue, at its place by arrival; its KV is computed again."""
        self._give_up_pages(request)
        request.move(State.QUEUED)
        request.computed = 0
        request.preempted = False
        self._enqueue(request)

    def _enqueue(self, request: Request) -> None:
        insort(self.queue, request, key=lambda queued: queued.order)

    def _end(self, request: Request, reason: str, now: float) -> None:
        if request.state is State.QUEUED:
            self.queue.remove(request)
        self._give_up_pages(request)
        request.move(State.DONE)
        del self.requests[request.id]
        self._finish(request, reason, now)
        self.ended.append(request)

    def _finish(self, request: Request, reason: str, now: float) -> None:
        """Tell the client; the pages may still be leased."""
        if request.finish_reason is None:
            request.finish_reason = reason
            request.timeline.finished = now
            request.on_end()

    def _give_up_pages(self, request: Request) -> None:
        self._starved.pop(request.id, None)
        self._forget_engine(request)
        self._publish(request)
        self.ledger.release(request.id)

    def _forget_engine(self, request: Request) -> None:
        if request.engine in self.engines:
            self.engines[request.engine].drop(request)
        request.engine = None

    def _send(self, engine: str, message: ToEngine) -> None:
        self.outbox.append((engine, message))


def _note_times(request: Request, step: Step, now: float) -> None:
    times = request.timeline
    times.tokens += 1
    times.last_token = now
    if request.state is State.DECODING:
        times.decode_began = times.decode_began or step.began
    elif not times.first_token:
        times.prefill_began = times.prefill_began or step.began
        times.prefill_ended = step.ended
        times.first_token = now
