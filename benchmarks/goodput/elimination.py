"""Which of several servers keeps its targets at the highest rate, and that rate, without a search for each.

All are tried at one rate until some pass there; only those with the highest attainment are tried on. From
then on it is enough that one passes at a rate, for what counts is the best of them. Knows no server; what
passed is told to it.
"""

from __future__ import annotations

from operator import itemgetter

import msgspec

from twinfer.bench.serve import search
from twinfer.bench.serve.search import Search

KEPT = 2
"""How many are tried on, and those that did as well as the last of them."""


class Elimination(msgspec.Struct, frozen=True):
    """Where the search among `alive` stands, named in the order in which they are to be tried.

    waiting   of them, those not yet tried at this rate
    passed    those that passed at this rate, with the share of requests that met the targets
    best      the one that passed at the rate `searching.passed`; None before there is one
    """

    searching: Search
    alive: tuple[str, ...]
    waiting: tuple[str, ...]
    passed: tuple[tuple[str, float], ...] = ()
    best: str | None = None


def begin(names: tuple[str, ...], searching: Search) -> Elimination:
    return Elimination(searching, names, names)


def next_probe(now: Elimination) -> tuple[str, float] | None:
    """Whom to try next, and at which rate; None when it is over."""
    rate = search.next_rate(now.searching)
    return None if rate is None else (now.waiting[0], rate)


def after(now: Elimination, met: bool, attainment: float) -> Elimination:
    """The elimination when the probe that `next_probe` asked for has passed or not."""
    name, waiting = now.waiting[0], now.waiting[1:]
    passed = (*now.passed, (name, attainment)) if met else now.passed
    first_to_pass = now.best is None
    if waiting and (first_to_pass or not met):
        return msgspec.structs.replace(now, waiting=waiting, passed=passed)
    return _next_round(now, waiting, passed)


def _next_round(
    now: Elimination, untried: tuple[str, ...], passed: tuple[tuple[str, float], ...]
) -> Elimination:
    rate = search.next_rate(now.searching)
    assert rate is not None
    searching = search.after(now.searching, rate, bool(passed))
    if not passed:
        return Elimination(searching, now.alive, now.alive, (), now.best)
    ranked = sorted(passed, key=itemgetter(1), reverse=True)
    least = ranked[:KEPT][-1][1]
    alive = (*(name for name, attainment in ranked if attainment >= least), *untried)
    return Elimination(searching, alive, alive, (), ranked[0][0])
