"""Finding the highest rate at which a test is passed, by widening and then halving a bracket."""

from __future__ import annotations

import math

import msgspec

from twinfer.errors import ConfigError

FACTOR = 2.0
"""Between rates at most while the bracket is open to one side."""


class Search(msgspec.Struct, frozen=True):
    """Where the highest passing rate can be.

    passed, failed   the highest rate that passed and the lowest that failed, None before there is one
    tolerance        how far `failed` may be above `passed` in the end, relative to it
    start            tried first; nothing outside of `least` and `most` is tried
    step             factor from the start to the second rate; a good guess wants a small one. While the
                     bracket is open to one side the factors grow, up to `FACTOR`
    """

    start: float
    least: float
    most: float
    tolerance: float
    step: float = FACTOR
    passed: float | None = None
    failed: float | None = None


def checked(search: Search) -> Search:
    """The search, its start moved into its bounds.

    Raises:
        ConfigError: bounds or tolerance are out of range.
    """
    if not 0 < search.least <= search.most < math.inf:
        raise ConfigError(
            f"min-rate must be over 0 and at most max-rate, not {search.least:g} and {search.most:g}"
        )
    if not search.start > 0:
        raise ConfigError(f"start-rate must be over 0, not {search.start:g}")
    if not 0.001 <= search.tolerance <= 1:
        raise ConfigError(f"tolerance must be from 0.001 to 1, not {search.tolerance:g}")
    if not 1 < search.step <= FACTOR:
        raise ConfigError(f"step must be over 1 and at most {FACTOR:g}, not {search.step:g}")
    return msgspec.structs.replace(search, start=min(max(search.start, search.least), search.most))


def next_rate(search: Search) -> float | None:
    """The rate to try next; None when the answer is known: `passed`, or no rate at all."""
    passed, failed = search.passed, search.failed
    if passed is None and failed is None:
        return search.start
    if failed is None:
        assert passed is not None
        return None if passed >= search.most else _round(min(passed * _factor(search, passed), search.most))
    if passed is None:
        return None if failed <= search.least else _round(max(failed / _factor(search, failed), search.least))
    middle = _round(math.sqrt(passed * failed))
    if failed <= passed * (1 + search.tolerance) or not passed < middle < failed:
        return None
    return middle


def after(search: Search, rate: float, good: bool) -> Search:
    """The search when a rate has passed or failed."""
    if good:
        return msgspec.structs.replace(search, passed=rate)
    return msgspec.structs.replace(search, failed=rate)


def _factor(search: Search, rate: float) -> float:
    """From this rate, the end of an open bracket, to the next: as far again as from the start to here."""
    far = max(rate / search.start, search.start / rate)
    return min(max(search.step, far), FACTOR)


def _round(rate: float) -> float:
    """Four significant digits: what is printed is what was tried."""
    return float(f"{rate:.4g}")
