"""More than the server can do: what becomes of those it takes and of its memory, and how soon it recovers.

First the highest rate at which 90 % of the requests keep their targets is found; then `--times` as much is
offered for `--seconds`, while the memory of the server's processes is watched. When the last request has
been sent, single ones are, one after the other, until their first token comes as soon as on an idle server.

    python -m benchmarks.overload [--times 10] [--seconds 120] [--capacity REQ_S] [--load "--input 256 …"]
                                  [--slo-ttft 2] [--slo-tpot 0.04] [--save NAME]
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from statistics import median
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table
from tqdm import tqdm

from benchmarks.goodput.servers import launch
from benchmarks.goodput.table import DISAGGREGATED
from benchmarks.measuring.footprint import watch
from benchmarks.measuring.generator import bench
from benchmarks.measuring.record import save
from benchmarks.measuring.serving import MeasureError, serving
from twinfer.bench.serve import address, measures
from twinfer.bench.serve import load as loads
from twinfer.bench.serve.answer import REFUSED, Answer
from twinfer.bench.serve.discover import canary
from twinfer.bench.serve.load import Load
from twinfer.bench.serve.measures import Slo
from twinfer.bench.serve.run import Prepared, Server, measure, prepare, warm_up
from twinfer.bench.serve.workload import workload

CALM = 5
"""Single requests in a row that must find an idle server."""


def main() -> None:
    parser = argparse.ArgumentParser(
        "python -m benchmarks.overload",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--times", type=float, default=10.0)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--capacity", type=float, help="requests a second, instead of finding it")
    parser.add_argument(
        "--probe-seconds", type=float, default=20.0, help="of arrivals at each rate, to find it"
    )
    parser.add_argument("--input", default="256", help="tokens of prompts")
    parser.add_argument("--output", default="64", help="tokens of answers")
    parser.add_argument("--slo-ttft", type=float, default=2.0)
    parser.add_argument("--slo-tpot", type=float, default=0.04)
    parser.add_argument("--save", metavar="NAME", help="keep the figures in results/NAME.json")
    args = parser.parse_args()
    slo = Slo(args.slo_ttft, args.slo_tpot)
    targets = ["--slo-ttft", str(args.slo_ttft), "--slo-tpot", str(args.slo_tpot)]
    try:
        with serving(launch(DISAGGREGATED, targets)) as url:
            lengths = ["--input", args.input, "--output", args.output]
            capacity = args.capacity or find_capacity(url, [*lengths, *targets], args.probe_seconds)
            figures = asyncio.run(overload(url, args, slo, capacity))
    except MeasureError as error:
        sys.exit(f"overload: error: {error}")
    show(figures)
    if args.save:
        save(args.save, figures)


def find_capacity(url: str, options: list[str], seconds: float) -> float:
    """The rate that `twinfer bench goodput` finds."""
    options = [*options, "--seconds", str(seconds), "--no-progress"]
    return float(bench(url, "goodput", options)["goodput_req_s"])


async def overload(url: str, args: argparse.Namespace, slo: Slo, capacity: float) -> dict[str, Any]:
    """Offer too much, and say what came of it."""
    work = workload(args.input, args.output, None, length_scale=1.0, max_len=None, seed=0)
    prepared = await prepare(Server(address.parse(url)), work, print)
    await warm_up(prepared, 8)
    idle = median([(await canary(prepared.asking)).ttft for _ in range(10)])
    load = loads.checked(Load(rate=args.times * capacity, duration=args.seconds), False)
    memory: list[dict[str, float]] = []
    watching = asyncio.create_task(watch(memory))
    began = time.perf_counter()
    back = asyncio.create_task(recovered(prepared, idle, began + args.seconds))
    with tqdm(disable=True) as bar:
        run = await measure(prepared.asking, loads.plan(prepared.work, load), load, bar)
    recovery = await back
    watching.cancel()
    offered = [answer for answer in run.answers if answer.sent <= began + args.seconds]
    return {
        "targets": msgspec.to_builtins(slo),
        "prompt_tokens": args.input,
        "answer_tokens": args.output,
        "capacity_req_s": round(capacity, 3),
        "offered_req_s": round(len(offered) / args.seconds, 3),
        "seconds": args.seconds,
        **outcome(run.answers, slo, args.seconds, capacity),
        "idle_ttft_ms": round(idle * 1000, 1),
        "recovery_seconds": recovery,
        "client_cpu": round(run.client_cpu, 3),
        "memory_mib": memory,
    }


def outcome(answers: list[Answer], slo: Slo, seconds: float, capacity: float) -> dict[str, Any]:
    """What became of the requests. Refusals are timed too."""
    counts = measures.counts(answers)
    admitted = [answer for answer in answers if answer.failure != REFUSED]
    refusals = [answer.e2e for answer in answers if answer.failure == REFUSED]
    goodput = measures.goodput(answers, slo, seconds)
    return {
        "completed": counts.completed,
        "refused": counts.refused,
        "failed": counts.errors,
        "attainment_of_admitted": round(measures.attainment(admitted, slo), 4),
        "ttft_ms": msgspec.to_builtins(measures.percentiles(a.ttft for a in admitted if a.completed)),
        "tpot_ms": msgspec.to_builtins(measures.percentiles(a.tpot for a in admitted if a.tpot is not None)),
        "refusal_ms": msgspec.to_builtins(measures.percentiles(refusals)),
        "goodput_req_s": round(goodput, 3),
        "goodput_share": round(goodput / capacity, 3),
    }


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


def show(figures: dict[str, Any]) -> None:
    table = Table(
        title=f"{figures['offered_req_s']:.1f} req/s for {figures['seconds']:.0f} s", show_header=False
    )
    memory = figures["memory_mib"]
    for name, text in (
        ("capacity", f"{figures['capacity_req_s']:.2f} req/s"),
        ("completed", str(figures["completed"])),
        ("refused with 429", str(figures["refused"])),
        ("failed otherwise", str(figures["failed"] or 0)),
        ("admitted that kept their targets", f"{figures['attainment_of_admitted']:.1%}"),
        ("goodput", f"{figures['goodput_req_s']:.2f} req/s, {figures['goodput_share']:.0%} of the capacity"),
        ("TTFT p50, p99", "{p50:.0f}, {p99:.0f} ms".format(**figures["ttft_ms"])),
        ("TPOT p50, p99", "{p50:.1f}, {p99:.1f} ms".format(**figures["tpot_ms"])),
        ("own memory, begin, most, end", ", ".join(f"{mib:.0f}" for mib in spread(memory, "own")) + " MiB"),
        ("shared memory, likewise", ", ".join(f"{mib:.0f}" for mib in spread(memory, "shared")) + " MiB"),
        ("idle again after", f"{figures['recovery_seconds']} s"),
    ):
        table.add_row(name, text)
    Console().print(table)


def spread(memory: list[dict[str, float]], kind: str) -> tuple[float, float, float]:
    """First, largest and last."""
    sizes = [row[kind] for row in memory]
    return sizes[0], max(sizes), sizes[-1]


if __name__ == "__main__":
    main()
