"""Offering a server more than it can do, and what becomes of the requests, its memory and itself."""

from __future__ import annotations

import asyncio
import time
from statistics import median
from typing import Any

import msgspec
from tqdm import tqdm

from benchmarks.measuring.footprint import watch
from twinfer.bench.serve import address, measures
from twinfer.bench.serve import load as loads
from twinfer.bench.serve.answer import REFUSED, Answer
from twinfer.bench.serve.discover import canary
from twinfer.bench.serve.load import Load
from twinfer.bench.serve.measures import Slo
from twinfer.bench.serve.run import Prepared, Server, measure, prepare, warm_up
from twinfer.bench.serve.workload import Workload

CALM = 5
"""Single requests in a row that must find an idle server."""

KEPT = {2.0: 0.8}
"""By how many times the capacity is offered: the share of it that is to be kept as goodput."""


async def overload(
    url: str, work: Workload, slo: Slo, *, capacity: float, times: float, seconds: float
) -> dict[str, Any]:
    """Offer `times` the capacity for so many seconds, and say what came of it."""
    prepared = await prepare(Server(address.parse(url)), work, print)
    await warm_up(prepared, 8)
    idle = median([(await canary(prepared.asking)).ttft for _ in range(10)])
    load = loads.checked(Load(rate=times * capacity, duration=seconds), False)
    memory: list[dict[str, float]] = []
    watching = asyncio.create_task(watch(memory))
    began = time.perf_counter()
    back = asyncio.create_task(recovered(prepared, idle, began + seconds))
    with tqdm(disable=True) as bar:
        run = await measure(prepared.asking, loads.plan(prepared.work, load), load, bar)
    recovery = await back
    watching.cancel()
    offered = [answer for answer in run.answers if answer.sent <= began + seconds]
    return {
        "targets": msgspec.to_builtins(slo),
        "times": times,
        "capacity_req_s": round(capacity, 3),
        "offered_req_s": round(len(offered) / seconds, 3),
        "seconds": seconds,
        **outcome(run.answers, slo),
        **kept(run.answers, slo, seconds, capacity, times),
        "idle_ttft_ms": round(idle * 1000, 1),
        "recovery_seconds": recovery,
        "client_cpu": round(run.client_cpu, 3),
        "memory_mib": memory,
    }


def outcome(answers: list[Answer], slo: Slo) -> dict[str, Any]:
    """What became of the requests. Refusals are timed too."""
    counts = measures.counts(answers)
    admitted = [answer for answer in answers if answer.failure != REFUSED]
    refusals = [answer.e2e for answer in answers if answer.failure == REFUSED]
    return {
        "completed": counts.completed,
        "refused": counts.refused,
        "failed": counts.errors,
        "attainment_of_admitted": round(measures.attainment(admitted, slo), 4),
        "ttft_ms": msgspec.to_builtins(measures.percentiles(a.ttft for a in admitted if a.completed)),
        "tpot_ms": msgspec.to_builtins(measures.percentiles(a.tpot for a in admitted if a.tpot is not None)),
        "refusal_ms": msgspec.to_builtins(measures.percentiles(refusals)),
    }


def kept(answers: list[Answer], slo: Slo, seconds: float, capacity: float, times: float) -> dict[str, Any]:
    """The goodput under that load, its share of the capacity, and whether that is as much as aimed at."""
    goodput = measures.goodput(answers, slo, seconds)
    figures = {"goodput_req_s": round(goodput, 3), "goodput_share": round(goodput / capacity, 3)}
    aim = KEPT.get(times)
    return figures if aim is None else {**figures, "aim": aim, "met": goodput / capacity >= aim}


async def recovered(prepared: Prepared, idle: float, end: float) -> float | None:
    """Seconds from `end` to the first single request from which on they find an idle server; None in 30 s."""
    await asyncio.sleep(end - time.perf_counter())
    calm: list[float] = []
    while len(calm) < CALM:
        sent = time.perf_counter()
        if sent > end + 30:
            return None
        answer = await canary(prepared.asking)
        soon = answer.completed and answer.ttft <= max(2 * idle, idle + 0.02)
        calm = [*calm, sent - end] if soon else []
        await asyncio.sleep(0.02)
    return round(calm[0], 3)
