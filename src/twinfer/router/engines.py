"""The router's view of an engine: its role, and the requests it was given."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

from twinfer.messages import Role, Step, Usage
from twinfer.policy.costs import LASTING, Answers, Between, Costs, learn
from twinfer.policy.routing import Load
from twinfer.router.request import Request

Phase = Literal["prefill", "decode"]


class Work(msgspec.Struct):
    """What an engine has done since it started: seconds and counts."""

    steps: int = 0
    busy: float = 0.0
    prompt_tokens: int = 0
    decode_tokens: int = 0


class EngineView(msgspec.Struct, eq=False):
    """An engine that is ready, with the requests it holds now, by number and phase.

    `costs` are those of its steps, `between` those of a token of each answer, since the last of which it has
    computed for `computed` seconds. An engine that is `draining` gets no more. Its latest step began at
    `stepped` or later. `cores` are those that its threads are on, and whether each is lent by another engine;
    `usage` is what it last said of them.
    """

    id: str
    role: Role
    draining: bool = False
    prefilling: dict[int, Request] = msgspec.field(default_factory=dict[int, Request])
    decoding: dict[int, Request] = msgspec.field(default_factory=dict[int, Request])
    work: Work = msgspec.field(default_factory=Work)
    costs: Costs = msgspec.field(default_factory=Costs)
    between: Between = msgspec.field(default_factory=Between)
    computed: float = 0.0
    stepped: float = 0.0
    cores: list[tuple[int, bool]] = msgspec.field(default_factory=list[tuple[int, bool]])
    usage: Usage | None = None

    @property
    def core_seconds(self) -> list[tuple[int, bool, float]]:
        """Each core, whether it is lent, and the seconds of processor time that the engine took on it."""
        seconds = self.usage.cores if self.usage else [0.0] * len(self.cores)
        return [(core, lent, each) for (core, lent), each in zip(self.cores, seconds, strict=True)]

    def serves(self, phase: Phase) -> bool:
        """Whether its role is made for this phase."""
        return not self.draining and self.role in (phase, "mixed")

    @property
    def held(self) -> list[Request]:
        """All its requests."""
        return [*self.prefilling.values(), *self.decoding.values()]

    def load_before(self, request: Request) -> Load:
        """The work that `request` would find ahead of it there."""
        turn = request.turn
        ahead = sum(r.remaining for r in self.prefilling.values() if r.turn < turn)
        return Load(self.id, ahead, len(self.decoding))

    def count(self, step: Step, *, helped: bool) -> None:
        """Add a step to the work done; `helped` if others had nothing to do and lent their cores."""
        seconds = step.ended - step.began
        self.work.steps += 1
        self.work.busy += seconds
        self.work.prompt_tokens += step.prompt_tokens
        self.work.decode_tokens += step.batch
        self.stepped = step.ended
        answers = Answers(step.batch, step.context)
        learn(self.costs, step.prompt_tokens, answers, seconds)
        self.computed += seconds
        if step.batch:
            between = self.between.helped if helped else self.between.alone
            learn(between, 0, answers, self.computed, LASTING)
        if step.batch or not self.decoding:
            self.computed = 0.0

    def take_prompt(self, request: Request, now: float) -> None:
        """It is given a request to prefill."""
        if not self.held:
            self.stepped = now
        self.prefilling[request.id] = request

    def get(self, number: int) -> Request | None:
        """The request of this number, if it holds it."""
        return self.prefilling.get(number) or self.decoding.get(number)

    def drop(self, request: Request) -> None:
        """Forget a request that it no longer holds."""
        self.prefilling.pop(request.id, None)
        self.decoding.pop(request.id, None)


def candidates(engines: Iterable[EngineView], phase: Phase) -> list[EngineView]:
    """Engines that may take a request in this phase.

    Those whose role it is; where there are none, any that is left, since a wrong role only costs time.
    """
    open_engines = [engine for engine in engines if not engine.draining]
    return [engine for engine in open_engines if engine.serves(phase)] or open_engines
