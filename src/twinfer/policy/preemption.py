"""Which running request gives its pages up when the pool is exhausted, and when it comes to that."""

from __future__ import annotations

from collections.abc import Iterable

from twinfer.policy.queueing import PRIORITY


def rank(arrived: float, priority: int) -> float:
    """Who keeps its pages: the least. Old and important requests come first, weighed as in the queue.

    It never changes, so the request of the least rank always gets on, and all end in time.
    """
    return arrived + priority * PRIORITY


def choose_victim(running: Iterable[tuple[float, int]]) -> int | None:
    """The last of `(rank, request)`: new, and of low priority."""
    last = max(running, default=None)
    return last[1] if last else None
