"""The rows as text: what a terminal shows, and the tables of docs/goodput.md."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from benchmarks.goodput.table import DISAGGREGATED, ITL_WORKLOAD, ONE_BY_ONE, WORKLOADS
from benchmarks.measuring.record import fill, picture
from benchmarks.rivals.catalog import RIVALS

Rows = dict[str, Any]
HEADINGS = ("workload", "targets", "server", "goodput", "ours over it", "aimed at", "", "again")


def show(rows: Rows) -> None:
    """Print the rows as a table."""
    table = Table(*HEADINGS, box=SIMPLE_HEAD)
    for cells in _cells(rows):
        table.add_row(*cells)
    Console(highlight=False, width=150).print(table)


def write(where: dict[str, Any], rows: Rows, path: Path) -> None:
    """Write a machine's tables, and its pictures' places, into a document."""
    codes = sorted({code for row in rows.values() for code in row["measured"]})
    lines = [
        f"{where['cpu']}, {where['cores']} cores; code {'; '.join(codes)}. {_quiet(rows)}",
        "",
        f"| {' | '.join(HEADINGS)} |",
        f"|{'---|' * len(HEADINGS)}",
        *(f"| {' | '.join(cells)} |" for cells in _cells(rows)),
    ]
    if itl := rows.get(ITL_WORKLOAD, {}).get("itl"):
        lines += [
            "",
            f"Disaggregated, at its goodput rate under a TPOT target of {itl['target_ms']:g} ms: the P99 of"
            f" the gaps between tokens is {itl['p99_ms']:.1f} ms, {itl['over_target']:.2f} times the target"
            f" (aimed at: at most {itl['aim']:g}; {_verdict(itl['met'])}).",
        ]
    if set(rows) - {ONE_BY_ONE}:
        pictures = {
            "goodput": "Goodput by workload and server",
            "goodput-curves": "Share of requests within their targets against the rate",
        }
        for name, said in pictures.items():
            lines += ["", f"![{said}]({picture(where, name)})"]
    fill(path, "goodput", lines, where)


def _quiet(rows: Rows) -> str:
    most = max(row["others"] for row in rows.values())
    return f"Other processes kept {most:.2f} cores busy meanwhile, in the row with most of it."


def title(mode: str) -> str:
    """A server's name for people."""
    if mode in RIVALS:
        return RIVALS[mode].title
    if mode.startswith("chunk-"):
        return f"colocated, chunks of {mode.removeprefix('chunk-')}"
    return mode


def _cells(rows: Rows) -> list[list[str]]:
    found: list[list[str]] = []
    for name, row in rows.items():
        found += _one_by_one(row) if name == ONE_BY_ONE else _workload(name, row)
    return found


def _workload(name: str, row: dict[str, Any]) -> list[list[str]]:
    cells = []
    for mode, rate in row["goodput_req_s"].items():
        first = mode == DISAGGREGATED
        over, aim = row["over"].get(mode), row["aims"].get(mode)
        again = ", ".join(f"{100 * share:.0f} %" for share in row["again"].get(mode, []))
        cells.append(
            [
                row["title"] if first else "",
                row["targets"] if first else "",
                title(mode),
                f"{rate:.2f}" if rate else "none",
                "" if first else f"{over:.2f}" if over is not None else "–",
                f"{aim:g}" if aim else "",
                _verdict(row["met"][mode]) if mode in row["met"] else "",
                again,
            ]
        )
    if row["best_chunked"] is None:
        cells.append(
            ["", "", "colocated, any chunk", "none", "–", f"{WORKLOADS[name].over_chunked:g}", "", ""]
        )
    return cells


def _one_by_one(row: dict[str, Any]) -> list[list[str]]:
    cells = []
    for mode, seconds in row["seconds"].items():
        first = mode == DISAGGREGATED
        cells.append(
            [
                "one request after another" if first else "",
                "none" if first else "",
                title(mode),
                f"{row['requests']} in {seconds:.1f} s",
                "" if first else f"{row['over'][mode]:.3f}",
                "" if first else f"≤ {row['aims'][mode]:g}",
                "" if first else _verdict(row["met"][mode]),
                "" if first else ", ".join(f"{ratio:.3f}" for ratio in row["ratios"][mode]),
            ]
        )
    return cells


def _verdict(met: bool) -> str:
    return "met" if met else "not met"
