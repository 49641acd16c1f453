"""The engine's side of the board: signs of life, and whether it still owns what it works on."""

from __future__ import annotations

import os
import threading
import time

import numpy as np
from numpy.typing import NDArray

from twinfer.engine.sequence import Sequence
from twinfer.kv.board import Board
from twinfer.kv.region import map_region
from twinfer.messages import Place

BEAT_SECONDS = 0.2


class Watch:
    """An engine's slot on the board, as the process that the router calls `owner`."""

    def __init__(self, place: Place) -> None:
        board = Board(map_region(place.region.fd, place.region.nbytes, writable=True), place.engines)
        self._slot = board.slot(place.slot)
        self._owner = place.owner
        self._stamps: NDArray[np.uint32] = np.frombuffer(board.stamps, np.uint32)

    def start(self) -> None:
        """Give signs of life from now on, also during long steps."""
        threading.Thread(target=self._beat, name="beat", daemon=True).start()

    def begin(self, requests: list[int]) -> None:
        """A step with these requests begins. The process ends here if it was replaced."""
        if self._slot.owner != self._owner:
            os._exit(1)
        self._slot.in_flight = requests

    def end(self) -> None:
        """The step is over."""
        self._slot.in_flight = []

    def stale(self, sequences: list[Sequence]) -> list[Sequence]:
        """Those that have lost a page."""
        return [sequence for sequence in sequences if not sequence.owns_pages(self._stamps)]

    def _beat(self) -> None:
        while self._slot.owner == self._owner:
            self._slot.beat = time.monotonic_ns()
            time.sleep(BEAT_SECONDS)
