"""What came of an overload as text: what a terminal shows, and the tables in docs/."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.measuring.record import described, fill


def show(figures: dict[str, Any]) -> None:
    """Print the figures as a table."""
    table = Table(title=title(figures), show_header=False)
    for name, text in rows(figures):
        table.add_row(name, text)
    Console(highlight=False).print(table)


def write(name: str, record: dict[str, Any], folder: Path) -> None:
    """Write a record that was saved as `name` into the documents that have a place for it."""
    lines = [
        f"{title(record)}. {described(record['machine'])}.",
        *("", "| | |", "|---|---|"),
        *(f"| {what} | {text} |" for what, text in rows(record)),
    ]
    program = f"overload --save {name}"
    for document in sorted(folder.glob("*.md")):
        if f"<!-- table: benchmarks.{program} on " in document.read_text():
            fill(document, program, lines, record["machine"])


def title(figures: dict[str, Any]) -> str:
    """What was offered."""
    offered, seconds = figures["offered_req_s"], figures["seconds"]
    prompt, answer = figures["prompt_tokens"], figures["answer_tokens"]
    return f"{offered:.1f} requests a second for {seconds:g} s, prompts {prompt}, answers {answer} tokens"


def rows(figures: dict[str, Any]) -> list[tuple[str, str]]:
    """Names and texts."""
    own, shared = (spread(figures["memory_mib"], kind) for kind in ("own", "shared"))
    ttft, tpot = figures["targets"]["ttft_s"], figures["targets"]["tpot_s"]
    return [
        ("targets", f"TTFT {ttft:g} s, TPOT {1000 * tpot:g} ms"),
        ("capacity: the rate at which 90 % keep both", f"{figures['capacity_req_s']:.2f} requests a second"),
        ("answered", str(figures["completed"])),
        (
            "refused with 429",
            f"{figures['refused']}, after {milliseconds(figures['refusal_ms'], 'p50')} in the median",
        ),
        ("lost or failed otherwise", str(sum(figures["failed"].values()))),
        ("admitted that kept both targets", f"{100 * figures['attainment_of_admitted']:.1f} %"),
        ("goodput", f"{figures['goodput_req_s']:.2f} requests a second"),
        ("of the capacity", f"{100 * figures['goodput_share']:.0f} %{_verdict(figures)}"),
        ("TTFT p50, p99", milliseconds(figures["ttft_ms"], "p50", "p99")),
        ("TPOT p50, p99", milliseconds(figures["tpot_ms"], "p50", "p99")),
        ("own memory of all processes at the start, the most, the end", own),
        ("shared memory, pool and weights, likewise", shared),
        ("from the load's end until a single request finds an idle server", _seconds(figures)),
    ]


def milliseconds(of: dict[str, float | None], *names: str) -> str:
    """Percentiles; a dash for one of nothing."""
    values = [of[name] for name in names]
    return (
        ", ".join(
            "–" if value is None else f"{value:.3g}" if value < 100 else f"{value:,.0f}" for value in values
        )
        + " ms"
    )


def spread(memory: list[dict[str, float]], kind: str) -> str:
    """First, largest and last."""
    sizes = [row[kind] for row in memory]
    return ", ".join(f"{mib:.0f}" for mib in (sizes[0], max(sizes), sizes[-1])) + " MiB"


def _verdict(figures: dict[str, Any]) -> str:
    if "aim" not in figures:
        return ""
    return f" (aimed at: {100 * figures['aim']:.0f} % or more; {'met' if figures['met'] else 'not met'})"


def _seconds(figures: dict[str, Any]) -> str:
    seconds = figures["recovery_seconds"]
    return "not in 30 s" if seconds is None else f"{seconds:.1f} s"
