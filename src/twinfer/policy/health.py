"""When an engine counts as hung."""

from __future__ import annotations

SILENCE = 2.0
OWN_PAUSE = 1.0


def hung(silence: float, since_last_look: float, look_interval: float) -> bool:
    """Whether an engine that has given no sign of life for `silence` seconds is to be replaced.

    Not when we have slept ourselves, `since_last_look` being far over the interval we look at: then
    the whole host was paused, and the engine deserves the time to wake up too.
    """
    return silence > SILENCE and since_last_look < look_interval + OWN_PAUSE
