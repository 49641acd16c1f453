"""The engine's side of the board: signs of life, and whether it still owns what it works on."""

from __future__ import annotations

import os
import threading
import time

import numpy as np
from numpy.typing import NDArray

from twinfer.engine.sequence import Sequence
from twinfer.kv.board import FOREVER, Board
from twinfer.kv.region import map_region
from twinfer.messages import Place

BEAT_SECONDS = 0.2


class Watch:
    """An engine's slot on the board, as the process that the router calls `owner`.

    `words` are the board's, for the threads that work on cores of other engines.
    """

    def __init__(self, place: Place) -> None:
        board = Board(map_region(place.region.fd, place.region.nbytes, writable=True), place.engines)
        self.words: NDArray[np.uint64] = np.frombuffer(board.words, np.uint64)
        self._slot = board.slot(place.slot)
        self._others = [board.slot(number) for number in range(place.engines) if number != place.slot]
        self._owner = place.owner
        self._stamps: NDArray[np.uint32] = np.frombuffer(board.stamps, np.uint32)

    def start(self) -> None:
        """Give signs of life from now on, also during long steps."""
        threading.Thread(target=self._beat, name="beat", daemon=True).start()

    def begin(self, tokens: dict[int, int], *, prompts: bool) -> None:
        """A step with so many tokens of these requests begins. The process ends here if it was replaced."""
        if self._slot.owner != self._owner:
            os._exit(1)
        self._slot.lent_until = 0
        self._slot.has_prompts = prompts
        self._slot.in_flight = tokens

    def end(self) -> None:
        """The step is over."""
        self._slot.in_flight = {}

    def rest(self, until: float | None) -> None:
        """Nothing is computed until that time, or for good: others may use our cores."""
        self._slot.lent_until = FOREVER if until is None else max(0, int(until * 1e9))
        if until is None:
            self._slot.has_prompts = False

    def prompts_wait(self) -> bool:
        """Whether another engine computes prompts."""
        return any(slot.has_prompts for slot in self._others)

    def stale(self, sequences: list[Sequence]) -> list[Sequence]:
        """Those that have lost a page."""
        pages = np.concatenate([sequence.granted for sequence in sequences])
        stamps = np.concatenate([sequence.stamped for sequence in sequences])
        if (self._stamps[pages] == stamps).all():  # As always: one look at all of them is quick.
            return []
        return [sequence for sequence in sequences if not sequence.owns_pages(self._stamps)]

    def _beat(self) -> None:
        while self._slot.owner == self._owner:
            self._slot.beat = time.monotonic_ns()
            time.sleep(BEAT_SECONDS)
