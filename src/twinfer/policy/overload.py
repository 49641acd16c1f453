"""Whether a request would be served too late to be of use, and had better be refused at once."""

from __future__ import annotations

import math

MARGIN = 0.8
"""Share of the target that is promised away; the rest is for rates that drop when load comes on."""

MEMORY = 0.5
"""Seconds of work over which a rate is averaged; what is older counts less and less."""


def expected_ttft(ahead: int, own: int, rate: float) -> float:
    """Seconds until the first token, with `ahead` prompt tokens to compute before `own`.

    `rate` is prompt tokens a second of all engines together; 0 while nothing is known, which is not
    held against the request. Nor is its own length where nothing is ahead: it can come no sooner later,
    and a rate that was measured in bad times is measured anew.
    """
    return (ahead + own) / rate if rate > 0 and ahead > 0 else 0.0


def retry_after(expected: float, target: float | None) -> float | None:
    """Seconds after which to try again, when it is not safe that `target` is kept; None to admit.

    By then what is too much now will have been worked off.
    """
    if target is None or expected <= MARGIN * target:
        return None
    return max(1.0, expected - MARGIN * target)


def smooth_rate(rate: float, tokens: int, seconds: float) -> float:
    """A measured rate, with a step of `tokens` in `seconds` taken into account, the more the longer it was.

    So a few tokens, which take longer each, do not hide what whole prompts take.
    """
    if tokens == 0 or seconds <= 0:
        return rate
    measured = tokens / seconds
    return measured if rate == 0 else rate + (1 - math.exp(-seconds / MEMORY)) * (measured - rate)
