"""Goodput as pictures: bars by workload and server, and the share within the targets against the rate."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib

from benchmarks.goodput.docs import title
from benchmarks.goodput.summary import SEARCH
from benchmarks.goodput.table import DISAGGREGATED, ONE_BY_ONE, TRADITIONAL

matplotlib.use("Agg")
from matplotlib import pyplot
from matplotlib.ticker import MultipleLocator

INK, FAINT = "#333333", "#8a8f94"
CHUNKED = "chunked"
# Colours of Okabe and Ito, told apart by all kinds of sight; the markers tell them apart in print.
LOOKS = {
    DISAGGREGATED: ("#0072b2", "o"),
    TRADITIONAL: ("#d55e00", "s"),
    CHUNKED: ("#009e73", "D"),
    "openvino": ("#999999", "P"),
    "vllm": ("#cc79a7", "X"),
}
GROUP = 0.84
COLUMNS = 4


def bars(machine: dict[str, Any], rows: dict[str, Any], path: Path) -> None:
    """Goodput by workload and server."""
    workloads = {name: row for name, row in rows.items() if name != ONE_BY_ONE}
    figure, axes = pyplot.subplots(figsize=(9, 1.2 + 0.95 * len(workloads)), layout="constrained")
    labels: set[str] = set()
    for place, row in enumerate(workloads.values()):
        rates = row["goodput_req_s"]
        for i, (mode, rate) in enumerate(rates.items()):
            height = GROUP / len(rates)
            at = place + GROUP * ((i + 0.5) / len(rates) - 0.5)
            kind = _kind(mode)
            label = None if kind in labels else _label(kind)
            labels.add(kind)
            drawn = axes.barh(at, rate, 0.92 * height, color=LOOKS[kind][0], label=label)
            axes.bar_label(
                drawn, [_bar_text(mode, rate, row["over"].get(mode))], padding=3, fontsize=8, color=INK
            )
    axes.set_yticks(
        range(len(workloads)),
        [f"{row['title']}\n{row['targets']}" for row in workloads.values()],
        fontsize=8,
    )
    axes.invert_yaxis()
    axes.margins(x=0.2)
    axes.set_xlabel("requests a second at which 90 % keep both targets", color=INK)
    _finish(figure, machine, path)


def curves(
    machine: dict[str, Any], rows: dict[str, Any], entries: Sequence[dict[str, Any]], path: Path
) -> None:
    """Share of requests within the targets against the rate, a panel for each workload."""
    names = [name for name in rows if name != ONE_BY_ONE]
    lines = -(-len(names) // COLUMNS)
    figure, grid = pyplot.subplots(
        lines,
        min(COLUMNS, len(names)),
        figsize=(3.6 * min(COLUMNS, len(names)), 0.9 + 3 * lines),
        layout="constrained",
        squeeze=False,
    )
    for panel in grid.flat[len(names) :]:
        panel.set_visible(False)
    for name, axes in zip(names, grid.flat, strict=False):
        _panel(axes, rows[name], [entry for entry in entries if entry["row"] == name])
    for axes in grid[:, 0]:
        axes.set_ylabel("requests within both targets", fontsize=8, color=INK)
    for axes in grid.flat:
        axes.set_xlabel("offered requests a second", fontsize=8, color=INK)
    _finish(figure, machine, path)


def _panel(axes: Any, row: dict[str, Any], entries: list[dict[str, Any]]) -> None:
    axes.set_title(f"{row['title']}\n{row['targets']}", fontsize=8, color=INK)
    axes.axhline(90, color=FAINT, lw=0.8, ls=":")
    lowest = 80.0
    for mode, rate in row["goodput_req_s"].items():
        color, marker = LOOKS[_kind(mode)]
        probes = sorted(
            (entry["rate"], 100 * entry["attainment"], entry["stopped_early"])
            for entry in entries
            if entry["mode"] == mode and entry["turn"] == SEARCH
        )
        whole = [(x, y) for x, y, stopped in probes if not stopped]
        bounds = [(x, y) for x, y, stopped in probes if stopped]
        lowest = min([lowest, *(y - 2 for _, y in (*whole, *bounds))])
        axes.plot(*zip(*whole, strict=True), marker, ls="-", ms=4, lw=1, color=color) if whole else None
        axes.plot(*zip(*bounds, strict=True), "v", ms=5, mfc="none", color=color) if bounds else None
        if rate:
            axes.axvline(rate, color=color, lw=1, ls="--")
        axes.plot([], [], marker, ls="-", ms=4, lw=1, color=color, label=_label(_kind(mode)))
    if any(entry["stopped_early"] for entry in entries):
        label = "stopped early: at most this"
        axes.plot([], [], "v", ls="", ms=5, mfc="none", color=FAINT, label=label)
    axes.plot([], [], ls="--", lw=1, color=FAINT, label="goodput")
    axes.set_xlim(left=0)
    axes.set_ylim(lowest, 101)
    axes.yaxis.set_major_locator(MultipleLocator(5 if lowest > 60 else 10))
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0f} %")
    axes.tick_params(labelsize=8)


def _kind(mode: str) -> str:
    return CHUNKED if mode.startswith("chunk-") else mode


def _label(kind: str) -> str:
    return "colocated, best chunk" if kind == CHUNKED else title(kind)


def _bar_text(mode: str, rate: float, over: float | None) -> str:
    """The rate, the chunk size where there is one, and how many times of it ours is."""
    size = f" (chunks of {mode.removeprefix('chunk-')})" if mode.startswith("chunk-") else ""
    times = f", ours {over:.2f}×" if over is not None else ""
    return f"{rate:.2f}{size}{times}"


def _finish(figure: Any, machine: dict[str, Any], path: Path) -> None:
    for axes in figure.axes:
        axes.spines[["top", "right"]].set_visible(False)
    found: dict[str, Any] = {}
    for axes in figure.axes:
        handles, labels = axes.get_legend_handles_labels()
        found |= dict(zip(labels, handles, strict=True))
    figure.legend(
        found.values(), found.keys(), loc="outside lower center", ncols=len(found), fontsize=8, frameon=False
    )
    figure.suptitle(f"{machine['cpu']}, {machine['cores']} cores, {machine['date']}", fontsize=8, color=FAINT)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130, metadata={"Software": None})
    pyplot.close(figure)
