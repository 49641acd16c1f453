"""The engine benchmark's report for people."""

from __future__ import annotations

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from twinfer.bench.report import Report


def show(console: Console, report: Report) -> None:
    """Print what was run, the ceilings, and a table for each phase."""
    prefill, decode = report.precision
    precision = prefill if prefill == decode else f"{prefill} in prefill, {decode} in decode"
    threads = "1 thread" if report.threads == 1 else f"{report.threads} threads"
    console.print(
        f"\n  [bold]{escape(report.model)}[/]  {precision}, KV in {report.kv_dtype}, {report.isa}, {threads}"
    )
    ceiling = report.ceiling
    console.print(
        f"  [dim]ceilings: {ceiling.int8_gops:.0f} GOP/s in 8 bits, {ceiling.bf16_gflops:.0f} GFLOP/s in"
        f" bf16, {ceiling.read_gb_s:.1f} GB/s read[/]\n",
        soft_wrap=True,
    )
    if report.prefill:
        console.print(_prefill(report))
    if report.decode:
        console.print(_decode(report))
    console.print(
        "  [dim]roofline: the least time that the ceilings allow, over the time measured; limit: which of"
        " them it is, arithmetic or memory.[/]",
        soft_wrap=True,
    )


def _prefill(report: Report) -> Table:
    table = Table("prefill", "tok/s", "seconds", "spread", "roofline", "limit", box=SIMPLE_HEAD)
    for row in report.prefill:
        table.add_row(
            f"{row.n}x{row.len}",
            f"[bold]{row.tok_s:.0f}[/]",
            f"{row.seconds:.3f}",
            _percent(row.spread),
            _percent(row.share),
            row.regime,
        )
    return table


def _decode(report: Report) -> Table:
    table = Table("decode", "context", "tok/s", "step ms", "spread", "roofline", "limit", box=SIMPLE_HEAD)
    for row in report.decode:
        table.add_row(
            f"batch {row.batch}",
            str(row.context),
            f"[bold]{row.tok_s:.0f}[/]",
            f"{row.step_ms:.2f}",
            _percent(row.spread),
            _percent(row.share),
            row.regime,
        )
    return table


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
