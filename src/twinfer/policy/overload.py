"""Whether a request would be served too late to be of use, and had better be refused at once."""

from __future__ import annotations

MARGIN = 0.8
"""Share of the target that is promised away; the rest is for rates that drop when load comes on."""


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
