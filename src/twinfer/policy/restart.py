"""Whether and when a dead engine is started again."""

from __future__ import annotations

DELAYS = (0.0, 0.2, 0.5, 1.0, 2.0)
"""Seconds; the first death may be an accident, and nobody gains by waiting then."""

REDEEMED_BY = 0.5


def restart_delay(deaths: int) -> float | None:
    """Seconds to wait before the next try, or None to give up. `deaths` is from `count_death`."""
    return DELAYS[deaths - 1] if deaths <= len(DELAYS) else None


def count_death(deaths: int, lifetime: float) -> int:
    """Deaths that count, now that an engine ended after `lifetime` seconds of service.

    Every `REDEEMED_BY` seconds of service make up for one earlier death, so that what is given up is an
    engine that cannot live, not one that something else kills now and then.
    """
    return max(0, deaths - int(lifetime / REDEEMED_BY)) + 1
