"""Whether and when a dead engine is started again."""

from __future__ import annotations

DELAYS = (0.1, 0.5, 2.0)
HEALTHY_AFTER = 60.0


def restart_delay(deaths: int) -> float | None:
    """Seconds to wait before the next try, or None to give up. `deaths` are those in short succession."""
    return DELAYS[deaths - 1] if deaths <= len(DELAYS) else None


def count_death(deaths: int, lifetime: float) -> int:
    """Deaths in short succession, now that an engine ended after `lifetime` seconds of service."""
    return 1 if lifetime >= HEALTHY_AFTER else deaths + 1
