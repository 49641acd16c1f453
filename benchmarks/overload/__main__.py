"""More than the server can do: what becomes of those it takes and of its memory, and how soon it recovers.

First the highest rate at which 90 % of the requests keep their targets is found; then `--times` as much is
offered for `--seconds`, while the memory of the server's processes is watched. When the last request has
been sent, single ones are, one after the other, until their first token comes as soon as on an idle server.

    python -m benchmarks.overload                                                      ten times as much
    python -m benchmarks.overload --times 2 --seconds 180 --probe-seconds 60 --save overload-twice
    python -m benchmarks.overload --render overload-twice                              the document only

`--save NAME` keeps the figures in results/MACHINE/NAME.json, and writes them into the document that has a
place for them: docs/reliability.md for `overload`, docs/goodput.md for `overload-twice`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from typing import Any

from benchmarks.goodput.servers import launch
from benchmarks.goodput.table import DISAGGREGATED
from benchmarks.measuring.generator import bench
from benchmarks.measuring.record import DOCS, results, save
from benchmarks.measuring.serving import MeasureError, serving
from benchmarks.overload.docs import show, write
from benchmarks.overload.offered import overload
from twinfer.bench.serve.measures import Slo
from twinfer.bench.serve.workload import workload

SEARCH_WITHIN = 3600.0
"""Seconds."""


def main() -> None:
    args = _arguments()
    name = args.save or args.render
    if not args.render:
        try:
            figures = measure(args)
        except MeasureError as error:
            sys.exit(f"overload: error: {error}")
        show(figures)
        if name:
            save(name, figures)
    if name:
        write(name, json.loads(results(name).read_text()), DOCS)


def measure(args: argparse.Namespace) -> dict[str, Any]:
    """The figures.

    Raises:
        MeasureError: the server does not start, or its capacity is not found.
    """
    targets = ["--slo-ttft", str(args.slo_ttft), "--slo-tpot", str(args.slo_tpot)]
    work = workload(args.input, args.output, None, length_scale=1.0, max_len=None, seed=0)
    with serving(launch(DISAGGREGATED, targets)) as url:
        capacity = args.capacity or find_capacity(url, args, targets)
        if not capacity:
            raise MeasureError("no rate was found at which the targets are kept")
        slo = Slo(args.slo_ttft, args.slo_tpot)
        more = overload(url, work, slo, capacity=capacity, times=args.times, seconds=args.seconds)
        figures = asyncio.run(more)
    asked = {"prompt_tokens": args.input, "answer_tokens": args.output}
    return {**asked, "probe_seconds": None if args.capacity else args.probe_seconds, **figures}


def find_capacity(url: str, args: argparse.Namespace, targets: list[str]) -> float:
    """The rate that `twinfer bench goodput` finds."""
    lengths = ["--input", args.input, "--output", args.output]
    probes = ["--seconds", str(args.probe_seconds), "--start-rate", str(args.start_rate), "--no-progress"]
    report = bench(url, "goodput", [*lengths, *targets, *probes], within=SEARCH_WITHIN)
    return float(report["goodput_req_s"])


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "python -m benchmarks.overload",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--times", type=float, default=10.0, help="the capacity; 10 if none")
    parser.add_argument("--seconds", type=float, default=120.0, help="of arrivals; 120 if none")
    parser.add_argument("--capacity", type=float, help="requests a second, instead of finding it")
    parser.add_argument("--probe-seconds", type=float, default=20.0, help="of arrivals at each rate")
    parser.add_argument("--start-rate", type=float, default=4.0, help="requests a second to try first")
    parser.add_argument("--input", default="256", help="tokens of prompts")
    parser.add_argument("--output", default="64", help="tokens of answers")
    parser.add_argument("--slo-ttft", type=float, default=2.0, help="seconds; 2 if none")
    parser.add_argument("--slo-tpot", type=float, default=0.04, help="seconds; 0.04 if none")
    parser.add_argument("--save", metavar="NAME", help="keep the figures in results/MACHINE/NAME.json")
    parser.add_argument("--render", metavar="NAME", help="measure nothing, write what was kept as NAME")
    return parser.parse_args()


if __name__ == "__main__":
    main()
