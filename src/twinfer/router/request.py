"""A request's life as an automaton.

    QUEUED ──► PREFILLING ──► DECODING ──► DONE
      ▲             │             │         ▲
      └───────── LEAVING ◄────────┘         │
                    └───────────────────────┘

A request in LEAVING waits for its engine's word that it no longer touches the pages; its `departure`
says what follows: the end, the queue with its pages kept (it moves to another engine), or the queue
with its pages given up (it was preempted). All other moves are immediate. Any state may end in DONE,
and a request whose engine died is queued again at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from enum import Enum, auto

import msgspec

from twinfer.messages import Task
from twinfer.policy.preemption import rank
from twinfer.policy.queueing import due, turn
from twinfer.router.generation import Generation
from twinfer.timeline import Timeline


class State(Enum):
    """Where a request is."""

    QUEUED = auto()
    PREFILLING = auto()
    DECODING = auto()
    LEAVING = auto()
    DONE = auto()


class Departure(Enum):
    """What becomes of a request that leaves its engine."""

    END = auto()
    MOVE = auto()
    PREEMPT = auto()


MOVES: dict[State, frozenset[State]] = {
    State.QUEUED: frozenset({State.PREFILLING, State.DECODING, State.DONE}),
    State.PREFILLING: frozenset({State.DECODING, State.LEAVING, State.QUEUED, State.DONE}),
    State.DECODING: frozenset({State.LEAVING, State.QUEUED, State.DONE}),
    State.LEAVING: frozenset({State.QUEUED, State.DONE}),
    State.DONE: frozenset(),
}


class Request(msgspec.Struct, eq=False):
    """All that is known of a request. `tokens` is the prompt and the answer so far.

    `computed` counts the tokens whose KV is in its pages, `cached` those whose KV was found there at
    the first look (None before it), and `keys` name its first full pages by content. `given_up` counts
    the tokens whose KV it had before its pages were taken, until it has pages again, and `awaited` those
    that it waits for in the queue, since another request computes them. `suspicion`
    says how far the deaths of engines whose step carried it speak against it, and `lost_at` is what
    `computed` was at the last.
    `placement` counts how often it was given to an engine, and `leased_at` is when its lease began.
    `known` tokens were in the cache when it was queued, `slo_ttft` is the target for its first token, and
    it is `late` when it could not keep that, or its own timeout, even if it were next.
    `on_tokens` hears of every new token, `on_end` once of the end.
    """

    id: int
    generation: Generation
    max_length: int
    timeline: Timeline
    on_tokens: Callable[[int], None]
    on_end: Callable[[], None]
    tokens: list[int]
    state: State = State.QUEUED
    engine: str | None = None
    placement: int = 0
    computed: int = 0
    keys: list[bytes] = msgspec.field(default_factory=list[bytes])
    cached: int | None = None
    given_up: int = 0
    awaited: int = 0
    known: int = 0
    slo_ttft: float | None = None
    late: bool = False
    departure: Departure | None = None
    suspicion: int = 0
    lost_at: int = -1
    leased_at: float = 0.0
    finish_reason: str | None = None
    error: str | None = None

    def move(self, state: State) -> None:
        """Enter `state`.

        Raises:
            AssertionError: the automaton has no such move.
        """
        if state not in MOVES[self.state]:
            raise AssertionError(f"request {self.id} cannot go from {self.state.name} to {state.name}")
        self.state = state

    @property
    def rank(self) -> tuple[float, int]:
        """Who keeps its pages when they run out: the least."""
        return (rank(self.timeline.arrived, self.generation.priority), self.id)

    @property
    def turn(self) -> tuple[float, int]:
        """Whose prompt comes first."""
        late = self.late and not self.begun
        remaining = len(self.tokens) - max(self.computed, self.known)
        return (turn(self.timeline.arrived, remaining, self.generation.priority, late), self.id)

    @property
    def remaining(self) -> int:
        """Tokens that it has to compute itself, as far as can be known before it has pages."""
        return len(self.tokens) - max(self.computed, self.known, self.awaited)

    @property
    def due(self) -> float:
        """Until when its first token should be there."""
        if self.begun:
            return math.inf
        return due(self.timeline.arrived, self.slo_ttft, self.generation.timeout)

    @property
    def prompt_tokens(self) -> int:
        """Tokens of the prompt as the client sent it."""
        return len(self.generation.prompt)

    @property
    def begun(self) -> bool:
        """Whether it has its first token."""
        return len(self.tokens) > self.prompt_tokens

    @property
    def suspect(self) -> bool:
        """Whether the step in which an engine died with it has not been passed since."""
        return self.computed <= self.lost_at

    @property
    def task(self) -> Task:
        """What an engine must know besides tokens and pages."""
        generation = self.generation
        return Task(
            generation.sampling,
            generation.stop_tokens,
            self.max_length,
            self.timeline.arrived,
            generation.priority,
            self.due,
        )
