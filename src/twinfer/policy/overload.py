"""Whether a request would be served too late to be of use, and had better be refused at once."""

from __future__ import annotations

MARGIN = 0.8
"""Share of the target that is promised away; the rest is for rates that drop when load comes on."""


def expected_ttft(ahead: int, own: int, rate: float, start: float = 0.0) -> float:
    """Seconds until the first token, with `ahead` prompt tokens to compute before `own`.

    It may start after `start` seconds; what is ahead is computed meanwhile. `rate` is prompt tokens a second
    of all engines together; 0 while nothing is known, which is not held against the request. Nor is its own
    length where it need not wait: it can come no sooner later, and a rate that was measured in bad times is
    measured anew.
    """
    if rate <= 0 or (ahead == 0 and start == 0):
        return start
    return (max(ahead, start * rate) + own) / rate


def slot_wait(waiting: int, free: int, ends: float) -> float:
    """Seconds until there is a slot for a request with `waiting` before it, of which `free` find one now.

    `ends` answers end in a second; 0 while that is not known, which is not held against the request.
    """
    return max(0, waiting + 1 - free) / ends if ends > 0 else 0.0


def retry_after(expected: float, target: float | None) -> float | None:
    """Seconds after which to try again, when it is not safe that `target` is kept; None to admit.

    By then what is too much now will have been worked off.
    """
    if target is None or expected <= MARGIN * target:
        return None
    return max(1.0, expected - MARGIN * target)
