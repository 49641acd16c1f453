"""How fast requests end, to tell those that are refused when to come back."""

from __future__ import annotations

import math

MEMORY = 20.0
"""Seconds over which the rate is averaged; what is older counts less and less."""

LEAST, MOST = 1.0, 60.0


class Throughput:
    """Requests that ended lately. Times are seconds of any one clock."""

    def __init__(self, now: float) -> None:
        self._began = self._last = now
        self._weight = 0.0

    def count(self, ended: int, now: float) -> None:
        """So many requests have ended."""
        self._weight = self._weight * math.exp((self._last - now) / MEMORY) + ended
        self._last = now

    def seconds_for(self, requests: int, now: float) -> float:
        """How long so many will take, from `LEAST` to `MOST`; `MOST` while none has ended."""
        self.count(0, now)
        if self._weight <= 0:
            return MOST
        seconds = MEMORY * (1 - math.exp((self._began - now) / MEMORY))
        return min(MOST, max(LEAST, requests * seconds / self._weight))
