"""The reports for people."""

from __future__ import annotations

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table

from twinfer.bench.serve.goodput import GoodputReport, Probe
from twinfer.bench.serve.measures import Percentiles, Slo
from twinfer.bench.serve.report import Facts, Report


def show(console: Console, report: Report, reasons: dict[str, str]) -> None:
    """Print a run's latencies and rates, and what failed and why."""
    show_facts(console, report.facts)
    console.print(_latencies(report))
    console.print(Padding(_rates(report), (0, 0, 0, 2)))
    for kind, count in report.errors.items():
        why = f": {escape(reasons[kind])}" if kind in reasons else ""
        console.print(f"  [red]{count} x {escape(kind)}[/]{why}", soft_wrap=True)
    for remark in remarks(report):
        console.print(f"  [yellow]{remark}[/]", soft_wrap=True)
    console.print()


def show_facts(console: Console, facts: Facts) -> None:
    """Print what is measured."""
    console.print(f"\n  [bold]{escape(facts.model)}[/] at {escape(facts.url)}", soft_wrap=True)
    console.print(
        f"  [dim]{escape(facts.load)}; {escape(facts.lengths)}; seed {facts.seed}[/]", soft_wrap=True
    )


def show_probe(console: Console, probe: Probe) -> None:
    """Print one line for a probe of the search."""
    verdict = "[green]met[/]" if probe.met else "[red]missed[/]"
    least = "at most " if probe.stopped_early else ""
    ttft, tpot = probe.report.ttft_ms.p90, probe.report.tpot_ms.p90
    console.print(
        f"  {probe.rate:>8g} req/s  {probe.requests:>5} requests  {least}{_percent(probe.attainment)} in time"
        f"  [dim]p90 of TTFT {_ms(ttft)} ms, of TPOT {_ms(tpot)} ms[/]  {verdict}",
        soft_wrap=True,
    )


def show_goodput(console: Console, report: GoodputReport) -> None:
    """Print the probes by rate, and the answer."""
    table = Table(box=SIMPLE_HEAD)
    for column in ("req/s", "requests", "in time", "TTFT p50", "p90 ms", "TPOT p50", "p90 ms", "tok/s"):
        table.add_column(column, justify="right", no_wrap=True)
    for probe in sorted(report.probes, key=lambda probe: probe.rate):
        found = probe.report
        ttft, tpot = found.ttft_ms, found.tpot_ms
        best = probe.met and probe.rate == report.goodput_req_s
        table.add_row(
            f"{probe.rate:g}",
            f"{probe.requests}",
            ("< " if probe.stopped_early else "") + _percent(probe.attainment),
            *(_ms(value) for value in (ttft.p50, ttft.p90, tpot.p50, tpot.p90)),
            f"{found.out_tok_s:.0f}",
            style="bold" if best else "" if probe.met else "dim",
        )
    console.print(table)
    console.print(
        f"  [bold]goodput {report.goodput_req_s:g} requests a second[/]: {_conclusion(report)}",
        soft_wrap=True,
    )
    console.print(f"  [dim]client CPU at most {_percent(report.client_cpu)} of a core[/]\n")


def remarks(report: Report) -> list[str]:
    """What a reader should know before believing the figures."""
    found: list[str] = []
    if report.wrong_length:
        found.append(f"answers not as long as asked for: {report.wrong_length}")
    if report.clipped:
        found.append(f"requests cut to the model's context: {report.clipped}")
    if report.cached_share >= 0.005:
        found.append(f"{_percent(report.cached_share)} of the prompt tokens came from the server's cache")
    if report.client_cpu > 0.5:
        found.append("the load generator itself took much of a core; latencies may be its own")
    return found


def _latencies(report: Report) -> Table:
    table = Table("", box=SIMPLE_HEAD)
    for column in ("p50 ms", "p90 ms", "p99 ms", "mean ms"):
        table.add_column(column, justify="right")
    rows: list[tuple[str, Percentiles]] = [
        ("TTFT  to the first token", report.ttft_ms),
        ("TPOT  a token after it", report.tpot_ms),
        ("ITL   between tokens", report.itl_ms),
        ("E2E   the whole answer", report.e2e_ms),
    ]
    for name, of in rows:
        table.add_row(name, _ms(of.p50), f"[bold]{_ms(of.p90)}[/]", _ms(of.p99), _ms(of.mean))
    return table


def _rates(report: Report) -> Table:
    table = Table.grid(padding=(0, 2))
    ended = f"{report.completed} completed, {report.failed} failed, {report.refused} refused"
    table.add_row("[dim]requests[/]", f"{ended} in {report.duration_s:.1f} s")
    table.add_row("[dim]requests a second[/]", f"[bold]{report.req_s:.2f}[/]")
    table.add_row("[dim]answer tokens a second[/]", f"[bold]{report.out_tok_s:.1f}[/]")
    table.add_row("[dim]prompt tokens a second[/]", f"{report.in_tok_s:.1f}")
    table.add_row(
        "[dim]mean tokens[/]", f"{report.input_tokens:.0f} prompt, {report.output_tokens:.0f} answer"
    )
    slo = Slo(report.slo.ttft_s, report.slo.tpot_s)
    if slo.given:
        met = f"{_percent(report.slo.attainment)} of the requests met {_targets(slo)}"
        table.add_row("[dim]goodput[/]", f"[bold]{report.goodput_req_s:.2f}[/] requests a second; {met}")
    table.add_row("[dim]client CPU[/]", f"{_percent(report.client_cpu)} of a core")
    return table


def _conclusion(report: GoodputReport) -> str:
    wanted = f"{_percent(report.attainment_target)} within {_targets(report.slo)}"
    if report.limited_by == "max-rate":
        return f"{wanted}; the server may do more, --max-rate stopped the search"
    if report.limited_by == "min-rate":
        return f"not even --min-rate has {wanted}"
    return wanted


def _targets(slo: Slo) -> str:
    parts = [f"TTFT {slo.ttft_s:g} s"] if slo.ttft_s is not None else []
    if slo.tpot_s is not None:
        parts.append(f"TPOT {1000 * slo.tpot_s:g} ms")
    return " and ".join(parts)


def _ms(milliseconds: float | None) -> str:
    if milliseconds is None:
        return "-"
    return f"{milliseconds:.0f}" if milliseconds >= 100 else f"{milliseconds:.1f}"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
