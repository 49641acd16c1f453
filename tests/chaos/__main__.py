"""`python -m tests.chaos`: many faults, and a table of what became of the requests."""

from __future__ import annotations

import argparse
import asyncio
import random
import sys

from rich.console import Console
from rich.table import Table

from twinfer.config import Config

from .killer import KINDS, Fault
from .run import Report, run

PROMISED = {"SIGKILL": 1.5, "SIGSEGV": 1.5, "SIGSTOP": 3.5, "drain": 1.5, "role": 1.5}
"""Seconds to the next token, for 99 % of the requests; a hang is noticed after two."""

CAPTION = "helped: requests for which another engine was ready all the time; alone: the others"


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
    return 0 if kept and not late(report.faults) else 1


def late(faults: list[Fault]) -> list[str]:
    """Kinds of faults after which requests waited longer than is promised where there is another engine."""
    waits = {
        kind: sorted(wait for each in faults if each.kind == kind for wait in each.waits) for kind in KINDS
    }
    return [kind for kind, own in waits.items() if own and quantile(own, 0.99) > PROMISED[kind]]


def show(report: Report) -> None:
    console = Console()
    table = Table("fault", "times", "helped", "p50", "p99", "alone", "p50", "p99", caption=CAPTION)
    for kind in sorted({fault.kind for fault in report.faults}):
        faults = [fault for fault in report.faults if fault.kind == kind]
        waits = sorted(wait for fault in faults for wait in fault.waits)
        alone = sorted(wait for fault in faults for wait in fault.alone)
        table.add_row(kind, str(len(faults)), *spread(waits), *spread(alone))
    console.print(table)
    tally = report.tally
    outcome = Table.grid(padding=(0, 2))
    outcome.add_row("seed", str(report.seed))
    outcome.add_row("seconds under load", f"{report.seconds:.0f}")
    outcome.add_row("later than promised", ", ".join(late(report.faults)) or "none")
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


def spread(ordered: list[float]) -> list[str]:
    """How many waits there were, the median and the 99th percentile."""
    shares = [f"{quantile(ordered, share):.3f} s" for share in (0.5, 0.99)] if ordered else ["–"] * 2
    return [str(len(ordered)), *shares]


def quantile(ordered: list[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


if __name__ == "__main__":
    sys.exit(main())
