"""The highest rate that a server keeps its targets at: probes of growing and then narrowing rates.

Every probe sends the same requests in the same order, as many as its rate and length need; only their
contents differ, so that no probe finds another's prompts in a cache.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from tqdm import tqdm

from twinfer.bench.serve import measures, search
from twinfer.bench.serve.answer import REFUSED, STOPPED, Answer
from twinfer.bench.serve.client import NO_CONNECTION
from twinfer.bench.serve.discover import canary, unanswered
from twinfer.bench.serve.failure import ServerError
from twinfer.bench.serve.load import Load, plan
from twinfer.bench.serve.measures import Slo
from twinfer.bench.serve.report import Facts, Report, Run, summarise
from twinfer.bench.serve.run import Prepared, measure
from twinfer.bench.serve.search import Search
from twinfer.errors import ConfigError

DRAIN_WITHIN = 60.0
"""Seconds after which a probe begins even though the server is not idle."""


class Probing(msgspec.Struct, frozen=True):
    """How a rate is tried: for so many seconds of arrivals, but with no fewer than `least_requests`."""

    slo: Slo
    attainment: float = 0.9
    seconds: float = 60.0
    least_requests: int = 30
    burstiness: float = 1.0


class Probe(msgspec.Struct, frozen=True):
    """A rate that was tried.

    `attainment` is the share of the requests planned that met the targets; at most that, where the probe
    was stopped early since too many had missed them already.
    """

    rate: float
    requests: int
    attainment: float
    met: bool
    stopped_early: bool
    report: Report


class GoodputReport(msgspec.Struct, frozen=True):
    """What the search found.

    goodput_req_s   the highest rate that passed; 0 if none did
    limited_by      "server", or which bound of the search was met: "max-rate" or "min-rate"
    best            the report of the probe at that rate
    """

    goodput_req_s: float
    attainment_target: float
    slo: Slo
    limited_by: str
    tolerance: float
    probes: list[Probe]
    client_cpu: float
    best: Report | None


def checked(probing: Probing) -> Probing:
    """The same.

    Raises:
        ConfigError: an option is out of range.
    """
    if not probing.slo.given:
        raise ConfigError("goodput needs a target: --slo-ttft, --slo-tpot, or both, in seconds")
    if not 0 < probing.attainment <= 1:
        raise ConfigError(f"attainment must be over 0 and at most 1, not {probing.attainment:g}")
    for name, value in (("seconds", probing.seconds), ("burstiness", probing.burstiness)):
        if not 0 < value < math.inf:
            raise ConfigError(f"{name} must be over 0, not {value:g}")
    if probing.least_requests < 1:
        raise ConfigError(f"min-requests must be at least 1, not {probing.least_requests}")
    return probing


def requests_of(probing: Probing, rate: float) -> int:
    """How many requests a probe at this rate sends."""
    return max(probing.least_requests, math.ceil(probing.seconds * rate))


def allowed_misses(requests: int, attainment: float) -> int:
    """How many of the requests may miss the targets, so that the share that met them is reached."""
    return math.floor(requests * (1 - attainment) + 1e-9)


def hopeless(answers: Sequence[Answer], slo: Slo, allowed: int, now: float) -> bool:
    """Whether more requests are bound to miss the targets than may."""
    return sum(measures.bound_to_miss(answer, slo, now) for answer in answers) > allowed


def judged(probing: Probing, rate: float, run: Run, facts: Facts) -> Probe:
    """The probe that a run was."""
    requests = requests_of(probing, rate)
    end = run.began + run.duration
    missed = sum(measures.bound_to_miss(answer, probing.slo, end) for answer in run.answers)
    ended = [answer for answer in run.answers if answer.failure != STOPPED]
    early = len(ended) < requests
    passed = not early and missed <= allowed_misses(requests, probing.attainment)
    report = summarise(msgspec.structs.replace(run, answers=ended), probing.slo, facts)
    return Probe(rate, requests, round(1 - missed / requests, 4), passed, early, report)


def conclude(probing: Probing, ended: Search, probes: list[Probe]) -> GoodputReport:
    """The report of a search that is over."""
    best = next((probe for probe in probes if probe.rate == ended.passed and probe.met), None)
    limited_by = "min-rate" if ended.passed is None else "max-rate" if ended.failed is None else "server"
    return GoodputReport(
        goodput_req_s=ended.passed or 0.0,
        attainment_target=probing.attainment,
        slo=probing.slo,
        limited_by=limited_by,
        tolerance=ended.tolerance,
        probes=probes,
        client_cpu=max((probe.report.client_cpu for probe in probes), default=0.0),
        best=None if best is None else best.report,
    )


async def find(
    prepared: Prepared,
    probing: Probing,
    searching: Search,
    facts: Facts,
    *,
    bar: Callable[[float, int], tqdm[Any]],
    on_probe: Callable[[Probe], None],
    say: Callable[[str], None],
) -> GoodputReport:
    """Probe until the highest rate is known. `bar` makes the progress bar of a rate's requests.

    Raises:
        ServerError: the server is gone, or answers nothing any more.
    """
    idle = await idle_seconds(prepared)
    probes: list[Probe] = []
    while (rate := search.next_rate(searching)) is not None:
        if not await drained(prepared, idle):
            say(f"the server is still busy after {DRAIN_WITHIN:g} s; going on")
        probe = await try_rate(prepared, probing, rate, facts, bar)
        probes.append(probe)
        on_probe(probe)
        searching = search.after(searching, rate, probe.met)
    if not probes[-1].met:  # Were the targets missed, or is the server gone?
        await drained(prepared, idle)
    return conclude(probing, searching, probes)


async def try_rate(
    prepared: Prepared,
    probing: Probing,
    rate: float,
    facts: Facts,
    bar: Callable[[float, int], tqdm[Any]],
) -> Probe:
    """One probe. It is given up once it cannot pass any more."""
    requests = requests_of(probing, rate)
    allowed = allowed_misses(requests, probing.attainment)
    load = Load(rate=rate, burstiness=probing.burstiness, requests=requests)
    asking = msgspec.structs.replace(prepared.asking, salt=round(rate * 1e6))
    with bar(rate, requests) as showing:
        run = await measure(
            asking,
            plan(prepared.work, load),
            load,
            showing,
            lambda answers, now: hopeless(answers, probing.slo, allowed, now),
        )
    return judged(probing, rate, run, msgspec.structs.replace(facts, load=load.described()))


async def idle_seconds(prepared: Prepared) -> float:
    """How long a canary takes when nothing else is asked.

    Raises:
        ServerError: one is not answered.
    """
    answers = [await canary(prepared.asking) for _ in range(3)]
    for answer in answers:
        if not answer.completed:
            raise unanswered(prepared.asking.place, answer)
    return min(answer.e2e for answer in answers)


async def drained(prepared: Prepared, idle: float) -> bool:
    """Wait until a canary is answered about as soon as on an idle server; False if that takes too long.

    Raises:
        ServerError: nothing listens there any more, or all that time nothing was answered or refused for now.
    """
    end = asyncio.get_running_loop().time() + DRAIN_WITHIN
    alive = False
    while True:
        answer = await canary(prepared.asking)
        if answer.failure == NO_CONNECTION:
            raise ServerError(f"the server at {prepared.asking.place.address.url} is gone")
        if answer.completed and answer.e2e <= max(3 * idle, idle + 0.05):
            return True
        alive = alive or answer.completed or answer.failure == REFUSED
        if asyncio.get_running_loop().time() > end:
            if not alive:
                raise unanswered(prepared.asking.place, answer)
            return False
        await asyncio.sleep(0.5)
