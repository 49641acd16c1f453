"""A request's life as an automaton.

    QUEUED ──► PREFILLING ──► DECODING ──► DONE
      ▲             │             │         ▲
      └─ preempted ─┴── LEAVING ──┴─────────┘ cancelled

A request in LEAVING waits for its engine's word that it no longer touches the pages; only then are
they released. All other moves are immediate, and any state may end in DONE.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto

import msgspec

from twinfer.messages import Task
from twinfer.router.generation import Generation
from twinfer.timeline import Timeline


class State(Enum):
    """Where a request is."""

    QUEUED = auto()
    PREFILLING = auto()
    DECODING = auto()
    LEAVING = auto()
    DONE = auto()


MOVES: dict[State, frozenset[State]] = {
    State.QUEUED: frozenset({State.PREFILLING, State.DONE}),
    State.PREFILLING: frozenset({State.DECODING, State.LEAVING, State.QUEUED, State.DONE}),
    State.DECODING: frozenset({State.LEAVING, State.QUEUED, State.DONE}),
    State.LEAVING: frozenset({State.QUEUED, State.DONE}),
    State.DONE: frozenset(),
}


class Request(msgspec.Struct, eq=False):
    """All that is known of a request. `tokens` is the prompt and the answer so far.

    `computed` counts the tokens whose KV is in its pages, `cached` those whose KV was found there at
    the first look (None before it), and `keys` name its first full pages by content. `preempted` marks
    a request in LEAVING that will queue again. `losses` counts the engines that died with it.
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
    computed: int = 0
    preempted: bool = False
    losses: int = 0
    keys: list[bytes] = msgspec.field(default_factory=list[bytes])
    cached: int | None = None
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
    def order(self) -> tuple[float, int]:
        """Who comes first: by arrival, then by number."""
        return (self.timeline.arrived, self.id)

    @property
    def prompt_tokens(self) -> int:
        """Tokens of the prompt as the client sent it."""
        return len(self.generation.prompt)

    @property
    def task(self) -> Task:
        """What an engine must know besides tokens and pages."""
        return Task(self.generation.sampling, self.generation.stop_tokens, self.max_length)
