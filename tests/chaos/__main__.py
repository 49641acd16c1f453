"""`python -m tests.chaos`: many faults, and a table of what became of the requests."""

from __future__ import annotations

import argparse
import asyncio
import random
import sys

from rich.console import Console
from rich.table import Table

from twinfer.config import Config

from .run import Report, run


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--faults", type=int, default=100)
    parser.add_argument("--seed", type=int, default=random.randrange(10000))
    parser.add_argument("--decode-engines", type=int, default=1)
    args = parser.parse_args()
    print(f"seed {args.seed}")
    config = Config(check=True, kv_pool_size=256 << 20, decode_engines=args.decode_engines)
    report = asyncio.run(run(config, args.faults, args.seed))
    show(report)
    kept = not (report.tally.lost or report.tally.different or report.leaked_pages or report.stray_processes)
    return 0 if kept else 1


def show(report: Report) -> None:
    console = Console()
    table = Table("fault", "times", "requests hit", "wait p50", "wait p99", "longest")
    for kind in sorted({fault.kind for fault in report.faults}):
        faults = [fault for fault in report.faults if fault.kind == kind]
        waits = sorted(wait for fault in faults for wait in fault.waits)
        spread = [f"{quantile(waits, share):.3f} s" for share in (0.5, 0.99, 1.0)] if waits else ["–"] * 3
        table.add_row(kind, str(len(faults)), str(len(waits)), *spread)
    console.print(table)
    tally = report.tally
    outcome = Table.grid(padding=(0, 2))
    outcome.add_row("seed", str(report.seed))
    outcome.add_row("seconds under load", f"{report.seconds:.0f}")
    outcome.add_row("answers compared", str(tally.answered))
    outcome.add_row("clients that hung up", str(tally.hung_up))
    outcome.add_row("answers that differ", str(tally.different))
    outcome.add_row("requests lost", str(len(tally.lost)))
    outcome.add_row("tokens recomputed", str(report.recomputed_tokens))
    outcome.add_row("pages leaked", str(report.leaked_pages))
    outcome.add_row("stray processes", str(report.stray_processes))
    console.print(outcome)
    for line in sorted(set(tally.lost)):
        console.print(line)


def quantile(ordered: list[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


if __name__ == "__main__":
    sys.exit(main())
