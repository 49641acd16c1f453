"""The comparison of engines as a picture: every engine's speed over the best rival's, row by row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib

from benchmarks.engines.rows import OURS
from benchmarks.rivals.catalog import RIVALS

matplotlib.use("Agg")
from matplotlib import pyplot

COLOURS = {
    "twinfer": "#0b6e99",
    "twinfer_int8": "#6fb1cc",
    "openvino": "#c9cdd2",
    "llama_cpp": "#a9b0b7",
    "vllm": "#e3e5e8",
}
HEIGHT = 0.8


def plot(machine: dict[str, Any], rows: list[dict[str, Any]], path: Path) -> None:
    """Draw the rows of a comparison into a PNG file."""
    names = list(rows[0]["tok_s"])
    figure, axes = pyplot.subplots(figsize=(9, 0.8 + 0.85 * len(rows)), layout="constrained")
    for i, name in enumerate(names):
        label = OURS.get(name) or RIVALS[name].title
        at = [row + HEIGHT * ((i + 0.5) / len(names) - 0.5) for row in range(len(rows))]
        widths = [_relative(row, name) for row in rows]
        bars = axes.barh(at, widths, HEIGHT / len(names), color=COLOURS[name], label=label)
        axes.bar_label(bars, [f"{row['tok_s'][name]:.0f}" for row in rows], padding=3, fontsize=7)
    for i, row in enumerate(rows):
        ends = (i - HEIGHT / 2, i + HEIGHT / 2)
        axes.vlines(row["floor"], *ends, color="#d1495b", lw=1.5, label="floor" if i == 0 else None)
        axes.vlines(row["aim"], *ends, color="#d1495b", lw=1.5, ls=":", label="aim" if i == 0 else None)
    axes.set_yticks(range(len(rows)), [row["row"] for row in rows])
    axes.invert_yaxis()
    axes.axvline(1, color="#888888", lw=0.8)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_xlabel("speed over the best rival's; the numbers are tokens a second")
    figure.legend(loc="outside lower center", ncols=len(names) + 2, fontsize=8, frameon=False)
    axes.set_title(f"{machine['cpu']}, commit {machine['commit']}, {machine['date']}", fontsize=8)
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, dpi=130, metadata={"Software": None})
    pyplot.close(figure)


def _relative(row: dict[str, Any], name: str) -> float:
    """Ours is the median of the rounds' ratios; the others' are of their medians."""
    if name in OURS:
        return float(row["ratio"][name])
    return float(row["tok_s"][name] / row["tok_s"][row["best_rival"]])
