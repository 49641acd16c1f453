"""The comparison of engines as a table in a document."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.engines.rows import OURS, reached
from benchmarks.measuring.record import described, fill, picture
from benchmarks.rivals.catalog import RIVALS


def write(machine: dict[str, Any], rows: list[dict[str, Any]], document: Path) -> None:
    """Write the rows of a comparison into a document that has a place for them."""
    names = list(rows[0]["tok_s"])
    titles = [OURS.get(name) or RIVALS[name].title for name in names]
    rounds = len(rows[0]["ratios"]["twinfer"])
    lines = [
        f"{described(machine)}, {rounds} round{'s' if rounds > 1 else ''}. Tokens a second.",
        "",
        f"| | {' | '.join(titles)} | ratio | with 8-bit KV | floor | aim | roofline |",
        "|---" * (len(names) + 6) + "|",
        *(_line(row, names) for row in rows),
        "",
        f"![every engine over the best rival]({picture(machine, 'engines')})",
    ]
    fill(document, "engines", lines, machine)


def _line(row: dict[str, Any], names: list[str]) -> str:
    speeds = " | ".join(f"{row['tok_s'][name]:,.0f}" for name in names)
    ratios = " | ".join(
        f"{row['ratio'][name]:.2f}{' (below)' * (reached(row, name) == 'below')}" for name in OURS
    )
    ends = f"{row['floor']:.2f} | {row['aim']:.2f} | {100 * row['roofline']:.0f} %"
    return f"| {row['row']} | {speeds} | {ratios} | {ends} |"
