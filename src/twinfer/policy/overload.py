"""Whether a request would be served too late to be of use, and had better be refused at once."""

from __future__ import annotations


def expected_ttft(ahead: int, own: int, rate: float) -> float:
    """Seconds until the first token, with `ahead` prompt tokens to compute before `own`.

    `rate` is prompt tokens a second of all engines together; 0 while nothing is known, which is not
    held against the request.
    """
    return (ahead + own) / rate if rate > 0 else 0.0


def retry_after(expected: float, target: float | None) -> float | None:
    """Seconds after which to try again, when the first token would come after `target`; None to admit.

    By then what is too much now will have been worked off.
    """
    if target is None or expected <= target:
        return None
    return max(1.0, expected - target)


def smooth_rate(rate: float, tokens: int, seconds: float) -> float:
    """A measured rate, with a step of `tokens` in `seconds` taken into account."""
    if tokens == 0 or seconds <= 0:
        return rate
    measured = tokens / seconds
    return measured if rate == 0 else rate + 0.2 * (measured - rate)
