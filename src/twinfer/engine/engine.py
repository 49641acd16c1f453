"""What an engine does: take requests from the router, plan a step, compute it.

It knows phases, not roles: it computes whatever prompts and decodes the router gives it.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from twinfer._native import Decoder
from twinfer.engine.forward import forward
from twinfer.engine.sequence import Sequence
from twinfer.engine.watch import Watch
from twinfer.messages import Cancel, Decode, Finish, Grant, Prefill, Released, Stale, Step, ToEngine
from twinfer.policy.batching import Plan, plan_step
from twinfer.policy.costs import Answers, Costs, decode_seconds, learn
from twinfer.policy.pacing import next_step


class Engine:
    """Continuous batching over the requests that the router has given to this engine.

    `prefill` and `decode` compute the two phases; they are the same object where the phases have the
    same precision, and then a step is one batch. `chunk` and `max_batch` bound a step; while another
    engine has prompts to compute, decode's steps keep the pace of `slo_tpot` seconds. What it decides follows
    from its messages, `clock`, `watch` and the tokens that the decoders return, and from nothing else.
    """

    def __init__(
        self,
        prefill: Decoder,
        decode: Decoder,
        watch: Watch,
        *,
        page_tokens: int,
        chunk: int,
        max_batch: int,
        slo_tpot: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._watch = watch
        self._prefill = prefill
        self._decode = decode
        self._page_tokens = page_tokens
        self._chunk = chunk
        self._max_batch = max_batch
        self._slo_tpot = slo_tpot
        self._last_began = 0.0
        self._costs = Costs()
        self._planned: Plan | None = None  # until something changes
        self._prompts: dict[int, Sequence] = {}
        self._decodes: dict[int, Sequence] = {}

    def take(self, message: ToEngine) -> Released | None:
        """Act on a message; the answer, if it has one, is for the router."""
        self._planned = None
        match message:
            case Prefill():
                self._prompts[message.request] = Sequence(message, self._page_tokens, self._clock())
            case Decode():
                self._decodes[message.request] = Sequence(message, self._page_tokens, self._clock())
            case Grant():
                sequence = self._decodes.get(message.request)
                if sequence is not None:
                    sequence.grant(message.pages, message.stamps)
            case Cancel():
                self._drop(message.request)
                return Released(message.request, message.placement)
            case _:
                raise ValueError(f"unexpected message {type(message).__name__}")
        return None

    def room(self, request: int) -> int | None:
        """Pages that the request could still be granted; None when it is not here."""
        sequence = self._decodes.get(request) or self._prompts.get(request)
        return None if sequence is None else len(sequence.pages) - sequence.held

    def due(self) -> float | None:
        """The time from which on the next step may be taken, in the past for at once; None when idle."""
        plan = self._plan()
        if plan.prompts:
            return 0.0
        if not plan.decodes:
            return None
        decodes = [self._decodes[request] for request, _ in plan.decodes]
        paces = (sequence.pace for sequence in decodes)
        wait = self._watch.prompts_wait()
        seconds = decode_seconds(self._costs, _answers(decodes))
        return next_step(paces, self._last_began, seconds, self._slo_tpot, wait)

    def step(self) -> list[Step | Stale]:
        """Compute a step, move its requests on, and say what came of it; nothing where none can run.

        Requests whose pages turn out to belong to others are let go; no token of theirs is reported.
        """
        plan = self._plan()
        self._planned = None
        prompts = [(self._prompts[request], count) for request, count in plan.prompts]
        decodes = [(self._decodes[request], count) for request, count in plan.decodes]
        sequences = [sequence for sequence, _ in [*prompts, *decodes]]
        if not sequences:
            return []
        self._watch.begin(dict([*plan.prompts, *plan.decodes]), prompts=bool(prompts))
        stale = self._watch.stale(sequences)
        if stale:
            return [self._let_go(stale)]
        began = self._last_began = self._clock()
        tokens = self._compute(prompts, decodes)
        ended = self._clock()
        stale = self._watch.stale(sequences)
        self._watch.end()
        prompt_tokens = sum(count for _, count in prompts)
        answers = _answers([sequence for sequence, _ in decodes])
        learn(self._costs, prompt_tokens, answers, ended - began)
        step = Step([], [], [], [], began, ended, prompt_tokens, answers.count, answers.context)
        for (sequence, count), token in zip([*prompts, *decodes], tokens, strict=True):
            if sequence not in stale:
                self._advance(sequence, count, token, step)
        return [step, self._let_go(stale)] if stale else [step]

    def _let_go(self, stale: list[Sequence]) -> Stale:
        for sequence in stale:
            self._drop(sequence.request)
        return Stale([sequence.request for sequence in stale])

    def _drop(self, request: int) -> None:
        self._prompts.pop(request, None)
        self._decodes.pop(request, None)

    def _plan(self) -> Plan:
        if self._planned is None:
            self._planned = plan_step(
                [sequence.item for sequence in self._prompts.values()],
                [sequence.item for sequence in self._decodes.values()],
                chunk=self._chunk,
                max_batch=self._max_batch,
                now=self._clock(),
                rate=self._costs.rate,
            )
        return self._planned

    def _compute(self, prompts: list[tuple[Sequence, int]], decodes: list[tuple[Sequence, int]]) -> list[int]:
        if self._prefill is self._decode:
            return forward(self._prefill, [*prompts, *decodes])
        return forward(self._prefill, prompts) + forward(self._decode, decodes)

    def _advance(self, sequence: Sequence, count: int, token: int, step: Step) -> None:
        sequence.advance(count)
        if len(sequence.tokens):
            step.chunks.append((sequence.request, sequence.computed))
            return
        finish = sequence.append(token)
        step.requests.append(sequence.request)
        step.tokens.append(token)
        step.finishes.append(finish)
        self._prompts.pop(sequence.request, None)  # the first token ends a prefill task
        if finish is not Finish.NONE:
            self._decodes.pop(sequence.request, None)


def _answers(decodes: list[Sequence]) -> Answers:
    return Answers(len(decodes), sum(sequence.computed for sequence in decodes))
