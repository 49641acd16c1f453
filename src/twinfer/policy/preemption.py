"""Which running request gives its pages up when the pool is exhausted."""

from __future__ import annotations

from collections.abc import Iterable


def choose_victim(running: Iterable[tuple[float, int]]) -> int | None:
    """The newest of `(arrived, request)`, so that the oldest always gets on and all end in time."""
    newest = max(running, default=None)
    return newest[1] if newest else None
