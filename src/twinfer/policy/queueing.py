"""Who is next: shortest remaining work first, with ageing.

A request's turn is a point in time, its arrival plus the time its remaining prompt tokens are worth;
the earliest turn comes first. So a short prompt overtakes a long one that came a little before it, and
nothing starves: whatever arrives later than a request's turn comes after it, however short.
"""

from __future__ import annotations

AGEING = 500.0
"""Prompt tokens that one second of waiting makes up for."""

PRIORITY = 10.0
"""Seconds of waiting that one level of priority makes up for; lower numbers come first."""


def turn(arrived: float, remaining: int, priority: int) -> float:
    """The turn of a request with `remaining` prompt tokens to compute, as a time like `arrived`."""
    return arrived + remaining / AGEING + priority * PRIORITY
