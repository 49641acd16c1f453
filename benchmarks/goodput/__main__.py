"""Twinfer against itself and its rivals: the rate at which 90 % of the requests keep their targets.

Every workload is offered to a disaggregated server, a traditional one (--colocate --prefill-chunk 0) and
colocated ones with prompts in chunks of 16, 32, 64, 128 and 256 tokens. All get the same requests with the
same seed, the same targets (--slo-ttft, --slo-tpot), queue order and prefix cache. A search probes rates
until it is known within 5 %; of the chunk sizes only those that can still be the best are probed on. In the
end the rates that were found are tried once more, in turns. Further rows: one request after another
(one-by-one), and on conv-40 the rivals that are installed (benchmarks/rivals/install.py).

    python -m benchmarks.goodput                                everything, about two hours
    python -m benchmarks.goodput --rows conv-15,one-by-one      some rows
    python -m benchmarks.goodput --slower 4 --seconds 60        on a machine a quarter as fast
    python -m benchmarks.goodput --draft /tmp/try --seconds 8   a rough look, kept apart
    python -m benchmarks.goodput --render                       tables and pictures from what is there

Each measurement is saved at once in benchmarks/results/MACHINE/goodput.json; interrupted, the program goes
on where it was when it is started again. It measures again what is not of this code (src/, native/) or not
with these settings, and everything with --again. After each row docs/goodput.md and its pictures are written.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from benchmarks.goodput.book import Book
from benchmarks.goodput.docs import show, write
from benchmarks.goodput.plot import bars, curves
from benchmarks.goodput.rows import Measuring, measure_one_by_one, measure_workload
from benchmarks.goodput.summary import summary
from benchmarks.goodput.table import ONE_BY_ONE, WORKLOADS
from benchmarks.measuring.record import DOCS, RESULTS, code_version, machine, picture, results
from benchmarks.measuring.serving import MeasureError
from benchmarks.rivals.catalog import RIVALS, is_installed

ROWS = (*WORKLOADS, ONE_BY_ONE)
KEPT = "goodput.json"
EMPTY = "<!-- table: benchmarks.goodput -->\n<!-- end -->\n"
"""A document with a place for the table."""


def main() -> None:
    args = _arguments()
    if args.render:
        for path in [args.draft / KEPT] if args.draft else sorted(RESULTS.glob(f"*/{KEPT}")):
            record = json.loads(path.read_text())
            render({**record, "rows": summary(record["entries"])}, args.draft)
        return
    identity = {"code": code_version(), "seconds": args.seconds, "slower": args.slower, "seed": args.seed}
    path = args.draft / KEPT if args.draft else results("goodput")
    try:
        failed = measure(Book(path, identity, machine(), summary), args)
    except KeyboardInterrupt:
        sys.exit("goodput: interrupted; started again, it goes on here")
    if failed:
        sys.exit("\n".join(["goodput: error: not everything could be measured", *failed]))


def measure(book: Book, args: argparse.Namespace) -> list[str]:
    """Measure the rows, one after the other; what could not be measured, and why."""
    measuring = Measuring(book, args.seconds, args.seed, args.turns, args.requests, args.rivals, args.slower)
    failed: list[str] = []
    for row in args.rows:
        book.begin(row, again=args.again)
        try:
            if row == ONE_BY_ONE:
                measure_one_by_one(measuring)
            else:
                failed += measure_workload(measuring, row)
        except MeasureError as error:
            failed.append(f"{row}: {error}")
            print(f"  {error}", flush=True)
        book.save()
        show(book.rows())
        render(book.record(), args.draft)
    return failed


def render(record: dict[str, Any], draft: Path | None) -> None:
    """Tables and pictures of all rows there are: in docs/, or beside the draft's measurements."""
    where, rows = record["machine"], record["rows"]
    if not rows:
        return
    folder = DOCS if draft is None else draft
    document = folder / "goodput.md"
    if draft:
        document.write_text(EMPTY)
    write(where, rows, document)
    if set(rows) - {ONE_BY_ONE}:
        bars(where, rows, folder / picture(where, "goodput"))
        curves(where, rows, record["entries"], folder / picture(where, "goodput-curves"))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "python -m benchmarks.goodput",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    here = tuple(name for name, rival in RIVALS.items() if rival.server and is_installed(name))
    parser.add_argument(
        "--rows", type=_names(ROWS), default=ROWS, help=f"some of {','.join(ROWS)}; all if none"
    )
    parser.add_argument(
        "--rivals", type=_names(RIVALS), default=here, help="those installed if none; '' for none"
    )
    parser.add_argument("--seconds", type=float, default=30, help="of arrivals at each rate; 30 if none")
    parser.add_argument(
        "--turns", type=int, default=1, help="in which all found rates are tried again; 1 if none"
    )
    parser.add_argument("--requests", type=int, default=40, help="one after another, nine turns; 40 if none")
    parser.add_argument(
        "--slower", type=float, default=1, help="times as long as in the table are all targets; 1 if none"
    )
    parser.add_argument("--seed", type=int, default=0, help="of arrivals, lengths and contents; 0 if none")
    parser.add_argument("--again", action="store_true", help="measure what is already there too")
    parser.add_argument(
        "--draft", type=Path, help="a folder to keep everything in, instead of results/ and docs/"
    )
    parser.add_argument("--render", action="store_true", help="measure nothing, write tables and pictures")
    return parser.parse_args()


def _names(known: Collection[str]) -> Callable[[str], tuple[str, ...]]:
    def names(text: str) -> tuple[str, ...]:
        wanted = tuple(name for name in text.split(",") if name)
        if unknown := [name for name in wanted if name not in known]:
            raise argparse.ArgumentTypeError(f"{', '.join(unknown)} is none of {', '.join(known)}")
        return wanted

    return names


if __name__ == "__main__":
    main()
