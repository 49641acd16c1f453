"""When requests arrive. Knows no clock and sends nothing."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from twinfer.bench.serve.seeds import ARRIVALS

AT_ONCE = 1024
"""Gaps drawn together."""


def arrivals(rate: float, burstiness: float, seed: int, count: int | None = None) -> Iterator[float]:
    """Arrivals of an open loop in seconds after the start.

    Gaps are gamma distributed with mean 1 / rate and shape `burstiness`: 1 is a Poisson process, less is
    burstier, more is steadier. The same seed gives the same sequence at every rate, only stretched; at an
    infinite rate everything arrives at once.

    With a `count` there are so many, stretched so that they come at exactly the rate; else there is no end.
    """
    if count is not None:
        times = np.cumsum([gap for gap, _ in zip(_gaps(burstiness, seed), range(count), strict=False)])
        yield from (times * (count / times[-1]) / rate).tolist()
        return
    now = 0.0
    for gap in _gaps(burstiness, seed):
        now += gap
        yield now / rate


def _gaps(burstiness: float, seed: int) -> Iterator[float]:
    """Gaps of mean 1, without end."""
    source = np.random.default_rng([ARRIVALS, seed])
    while True:
        yield from source.gamma(burstiness, 1 / burstiness, AT_ONCE).tolist()
