"""From answers to figures: percentiles, rates, and who met the targets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec
import numpy as np

from twinfer.bench.serve.answer import REFUSED, STOPPED, Answer


class Slo(msgspec.Struct, frozen=True):
    """Targets in seconds; one that is None is met by everything."""

    ttft_s: float | None = None
    tpot_s: float | None = None

    @property
    def given(self) -> bool:
        return self.ttft_s is not None or self.tpot_s is not None


class Percentiles(msgspec.Struct, frozen=True):
    """Of milliseconds; None where there is nothing to count."""

    p50: float | None = None
    p90: float | None = None
    p99: float | None = None
    mean: float | None = None


class Counts(msgspec.Struct, frozen=True):
    """How requests ended: `failed` by kind in `errors`; those refused with 429 are in neither."""

    completed: int
    failed: int
    refused: int
    errors: dict[str, int]


def percentiles(seconds: Iterable[float]) -> Percentiles:
    """Percentiles, in milliseconds, with linear interpolation between neighbours."""
    values = np.fromiter(seconds, float) * 1000
    if not values.size:
        return Percentiles()
    p50, p90, p99 = (round(float(value), 3) for value in np.percentile(values, (50, 90, 99)))
    return Percentiles(p50, p90, p99, round(float(values.mean()), 3))


def counts(answers: Sequence[Answer]) -> Counts:
    errors = Counter(answer.failure for answer in answers if answer.failure and answer.failure != REFUSED)
    refused = sum(answer.failure == REFUSED for answer in answers)
    completed = sum(answer.completed for answer in answers)
    return Counts(completed, errors.total(), refused, dict(errors.most_common()))


def met(answer: Answer, slo: Slo) -> bool:
    """Whether an answer was completed within both targets. One of a single token has no TPOT to miss."""
    if not answer.completed:
        return False
    if slo.ttft_s is not None and answer.ttft > slo.ttft_s:
        return False
    return slo.tpot_s is None or answer.tpot is None or answer.tpot <= slo.tpot_s


def bound_to_miss(answer: Answer, slo: Slo, now: float) -> bool:
    """Whether it is certain at `now` that an answer, running, given up or ended, misses a target."""
    if answer.ended and answer.failure != STOPPED:
        return not met(answer, slo)
    if slo.ttft_s is not None and (answer.first or now) - answer.sent > slo.ttft_s:
        return True
    if slo.tpot_s is None or not answer.first or answer.job.output < 2:
        return False
    return now - answer.first > slo.tpot_s * (answer.job.output - 1)


def goodput(answers: Sequence[Answer], slo: Slo, duration: float) -> float:
    """Requests a second that met both targets."""
    return sum(met(answer, slo) for answer in answers) / duration if duration else 0.0


def attainment(answers: Sequence[Answer], slo: Slo) -> float:
    """Share of all requests, failed ones too, that met both targets; 1 of none."""
    return sum(met(answer, slo) for answer in answers) / len(answers) if answers else 1.0
