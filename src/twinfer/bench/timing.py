"""Repeats and their median. Knows nothing of what is measured."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence

import msgspec


class Timing(msgspec.Struct, frozen=True):
    """The median of repeats in seconds, and the distance of the slowest from the quickest, over it."""

    seconds: float
    spread: float


def timing(seconds: Sequence[float]) -> Timing:
    """The timing of repeats, at least one."""
    median = statistics.median(seconds)
    return Timing(median, (max(seconds) - min(seconds)) / median)


def repeat(measure: Callable[[], float], times: int, patience: float) -> Timing:
    """Measure some times, fewer once that has taken `patience` seconds. `measure` returns its seconds."""
    seconds: list[float] = []
    began = time.perf_counter()
    while len(seconds) < times and (not seconds or time.perf_counter() - began < patience):
        seconds.append(measure())
    return timing(seconds)
