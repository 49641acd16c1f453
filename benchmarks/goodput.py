"""Twinfer against itself: the rate at which 90 % of the requests keep their targets, mode by mode.

Each workload is offered to a disaggregated server and to colocated ones, traditional (whole prompts) and
with chunked prefill, all with the same requests, queue order and prefix cache, in turns on one machine.

    python benchmarks/goodput.py [--workloads conv-40,p64] [--modes disaggregated,traditional,chunk-64]
                                 [--seconds 60] [--save]
"""

from __future__ import annotations

import argparse
import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from record import RESULTS, save


class Workload(NamedTuple):
    """What is asked, the targets in seconds, and the ratios aimed at against the two baselines."""

    load: list[str]
    ttft: float
    tpot: float
    over_traditional: float
    over_chunked: float


CONVERSATION = ["--trace", "azure-conv", "--length-scale", "0.5"]
MOONCAKE = ["--trace", "mooncake", "--length-scale", "0.125"]
WORKLOADS = {
    "conv-40": Workload(CONVERSATION, 3, 0.040, 1.4, 1.1),
    "conv-15": Workload(CONVERSATION, 3, 0.015, 2.0, 1.15),
    "conv-10": Workload(CONVERSATION, 3, 0.010, 3.0, 1.15),
    "p1024": Workload(["--input", "1024", "--output", "64"], 4, 0.015, 2.5, 1.1),
    "p256": Workload(["--input", "256", "--output", "128"], 1, 0.015, 1.3, 1.1),
    "p64": Workload(["--input", "64", "--output", "256"], 1, 0.040, 1.0, 1.0),
    "mooncake": Workload(MOONCAKE, 3, 0.015, 2.0, 1.1),
}
CHUNKS = (16, 32, 64, 128, 256)
MODES: dict[str, list[str]] = {
    "disaggregated": [],
    "traditional": ["--colocate", "--prefill-chunk", "0"],
    **{f"chunk-{size}": ["--colocate", "--prefill-chunk", str(size)] for size in CHUNKS},
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workloads", default=",".join(WORKLOADS))
    parser.add_argument("--modes", default=",".join(MODES))
    parser.add_argument("--seconds", type=float, default=60, help="of arrivals at each rate")
    parser.add_argument("--start-rate", type=float, default=2.0)
    parser.add_argument("--save", action="store_true", help="keep the figures in results/goodput.json")
    args = parser.parse_args()
    rows = {}
    for name in args.workloads.split(","):
        rows[name] = {
            mode: measure(WORKLOADS[name], MODES[mode], args.seconds, args.start_rate)
            for mode in args.modes.split(",")
        }
        show(name, rows[name])
        if args.save:
            save("goodput", {"seconds": args.seconds, "workloads": {**_saved(), **rows}})


def measure(workload: Workload, options: list[str], seconds: float, start_rate: float) -> dict[str, Any]:
    """The report of `twinfer bench goodput` against a fresh server."""
    targets = ["--slo-ttft", str(workload.ttft), "--slo-tpot", str(workload.tpot)]
    with server([*options, "--slo-tpot", str(workload.tpot)]) as url:
        search = ["--seconds", str(seconds), "--start-rate", str(start_rate), "--no-progress"]
        command = ["bench", "goodput", "--url", url, *workload.load, *targets, *search]
        done = subprocess.run(
            [sys.executable, "-m", "twinfer.cli", *command], capture_output=True, text=True, check=False
        )
    if done.returncode != 0:
        sys.exit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


@contextmanager
def server(options: list[str]) -> Iterator[str]:
    """A server's address, while it runs."""
    command = [sys.executable, "-m", "twinfer.cli", "serve", "--port", "0", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield next(found[0] for line in process.stdout if (found := re.search(r"http://[\w.:]+", line)))
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


def show(name: str, modes: dict[str, dict[str, Any]]) -> None:
    workload = WORKLOADS[name]
    title = f"{name}: TTFT {workload.ttft} s, TPOT {workload.tpot * 1000:.0f} ms"
    table = Table("mode", "goodput req/s", "disaggregated over it", "aimed at", title=title)
    ours = _rate(modes["disaggregated"]) if "disaggregated" in modes else 0.0
    for mode, report in modes.items():
        rate = _rate(report)
        aim = workload.over_traditional if mode == "traditional" else workload.over_chunked
        ratio = f"{ours / rate:.2f}" if rate else "–"
        table.add_row(mode, f"{rate:.2f}", ratio, "" if mode == "disaggregated" else f"{aim:.2f}")
    Console().print(table)


def _rate(report: dict[str, Any]) -> float:
    return float(report["goodput_req_s"])


def _saved() -> dict[str, Any]:
    path = RESULTS / "goodput.json"
    return json.loads(path.read_text())["workloads"] if path.exists() else {}


if __name__ == "__main__":
    main()
