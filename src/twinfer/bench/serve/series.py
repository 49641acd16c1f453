"""The latencies of a run as series over time, ready to be drawn."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from twinfer.bench.serve.answer import Answer
from twinfer.bench.serve.report import Report, Run

Floats = NDArray[np.float64]


class Series(msgspec.Struct, frozen=True):
    """One latency: when each value was seen, in seconds after the start, and the value in milliseconds."""

    name: str
    meaning: str
    when: Floats
    values: Floats
    target: float | None = None


def series(run: Run, report: Report) -> list[Series]:
    """The latencies of the completed requests: three by when they were sent, ITL by when tokens came."""
    done = [answer for answer in run.answers if answer.completed]
    longer = [(answer.sent, tpot) for answer in done if (tpot := answer.tpot) is not None]
    gaps = [pair for answer in done for pair in zip(answer.stamps[1:], answer.itl, strict=True)]
    ttft, tpot = report.slo.ttft_s, report.slo.tpot_s
    return [
        _series("TTFT", "from sending to the first token", run, _by_sending(done, "ttft"), ttft),
        _series("TPOT", "mean gap after the first token", run, longer, tpot),
        _series("ITL", "each gap between tokens", run, gaps),
        _series("E2E", "from sending to the end of the answer", run, _by_sending(done, "e2e")),
    ]


def thinned(count: int, most: int) -> NDArray[np.int64]:
    """At most `most` places among `count`, evenly spread, first and last among them."""
    if count <= most:
        return np.arange(count)
    return np.linspace(0, count - 1, most).astype(np.int64)


def binned(when: Floats, values: Floats, bins: int, percent: float) -> tuple[Floats, Floats]:
    """Middles of equal spans of time that have values, and that percentile of the values in each."""
    if not when.size:
        return when, values
    edges: Floats = np.linspace(float(when.min()), float(when.max()), bins + 1)
    place = np.clip(np.searchsorted(edges, when, side="right") - 1, 0, bins - 1)
    filled = np.unique(place)
    middles = (edges[filled] + edges[filled + 1]) / 2
    return middles, np.array([np.percentile(values[place == each], percent) for each in filled])


def top(row: Series) -> float:
    """Where an axis of the values ends: past nearly all, but not past every stray one.

    Past the target too, unless that is so far off that the values would be hard to tell apart.
    """
    most = max(float(np.percentile(row.values, 99.5)) * 1.15, 1e-3)
    target = 1.15 * (row.target or 0)
    return max(most, target) if target <= 4 * most else most


def _by_sending(answers: Sequence[Answer], latency: str) -> list[tuple[float, float]]:
    return [(answer.sent, getattr(answer, latency)) for answer in answers]


def _series(
    name: str,
    meaning: str,
    run: Run,
    seen: Sequence[tuple[float, float]],
    target: float | None = None,
) -> Series:
    when, seconds = np.asarray(seen, np.float64).reshape(-1, 2).T
    return Series(name, meaning, when - run.began, seconds * 1000, target and target * 1000)
