"""A picture of a run: latencies over time, and how they are distributed."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from twinfer.bench.serve import measures
from twinfer.bench.serve.report import Report, Run
from twinfer.bench.serve.series import Series, binned, series, thinned, top
from twinfer.errors import ConfigError

INK, FAINT, GRID, TARGET = "#22313f", "#7f8c97", "#e3e8ec", "#c0392b"
COLORS = {"TTFT": "#2a7f9e", "TPOT": "#c9822a", "ITL": "#6c5fa7", "E2E": "#4a8c5c"}
KINDS = (".png", ".svg", ".pdf")
MOST_POINTS = 20_000
MOST_BINS = 60


def check(path: Path) -> None:
    """Raises ConfigError when there is nothing to draw with, or `path` is of no kind that can be drawn."""
    if find_spec("matplotlib") is None:
        raise ConfigError("--plot needs matplotlib; install it with: pip install 'twinfer[plot]'")
    if path.suffix.lower() not in KINDS:
        raise ConfigError(f"--plot writes {', '.join(KINDS)}, not '{path.name}'")


def draw(path: Path, run: Run, report: Report) -> None:
    """Write the picture to `path`.

    Raises:
        ConfigError: the file cannot be written.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure: Any = Figure(figsize=(13, 12.5), layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    rows = series(run, report)
    grid: Any = figure.subplots(len(rows), 2, width_ratios=(2, 1), squeeze=False)
    for (left, right), row in zip(grid, rows, strict=True):
        left.set_xlim(0, max(run.duration, 1e-3))
        _over_time(left, row)
        _distribution(right, row)
    grid[-1][0].set_xlabel("seconds after the start", color=FAINT)
    grid[-1][1].set_xlabel("milliseconds", color=FAINT)
    figure.suptitle(_title(report), x=0.01, ha="left", fontsize=11, color=INK, linespacing=1.5)
    try:
        figure.savefig(path, dpi=110)
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror}") from None


def _over_time(axes: Any, row: Series) -> None:
    _style(axes)
    axes.set_ylabel(f"{row.name}  ms", color=INK)
    axes.set_title(row.meaning, loc="left", fontsize=9, color=FAINT)
    count = row.values.size
    if not count:
        return
    shown = thinned(count, MOST_POINTS)
    color = COLORS[row.name]
    crowd = float(np.clip(500 / shown.size, 0.15, 1))
    axes.plot(
        row.when[shown], row.values[shown], ".", color=color, alpha=0.7 * crowd, ms=4 + 4 * crowd, mew=0
    )
    bins = int(min(count // 12, MOST_BINS))
    if bins > 3:
        for percent, width, style in ((50, 1.8, "-"), (90, 1.2, "--")):
            middles, values = binned(row.when, row.values, bins, percent)
            axes.plot(middles, values, style, color=color, linewidth=width, label=f"p{percent}")
    axes.set_ylim(0, top(row))
    if row.target is not None:
        beyond = ", above" if row.target > top(row) else ""
        axes.axhline(row.target, color=TARGET, linewidth=1.2, label=f"target {row.target:g} ms{beyond}")
    if axes.get_legend_handles_labels()[1]:
        legend = axes.legend(loc="upper right", ncols=3, fontsize=8, labelcolor=INK, framealpha=0.85)
        legend.get_frame().set_edgecolor(GRID)


def _distribution(axes: Any, row: Series) -> None:
    _style(axes)
    axes.set_title(f"share of {row.name} below", loc="left", fontsize=9, color=FAINT)
    axes.set_ylim(0, 1.02)
    axes.set_yticks([0, 0.25, 0.5, 0.75, 0.9, 1], ["0", "25 %", "50 %", "75 %", "90 %", "100 %"])
    if not row.values.size:
        return
    ordered = np.sort(row.values)
    shown = thinned(ordered.size, MOST_POINTS)
    values = np.append(ordered[shown], max(ordered[-1], top(row)))
    share = np.append((shown + 1) / ordered.size, 1)
    axes.step(values, share, where="post", color=COLORS[row.name], linewidth=1.8)
    axes.fill_between(values, share, step="post", color=COLORS[row.name], alpha=0.12)
    axes.set_xlim(0, top(row))
    if row.target is not None:
        axes.axvline(row.target, color=TARGET, linewidth=1.2)
    axes.set_title(_percentiles(row), loc="right", fontsize=9, color=INK)


def _percentiles(row: Series) -> str:
    found = measures.percentiles(row.values / 1000)
    named = (("p50", found.p50), ("p90", found.p90), ("p99", found.p99))
    return "   ".join(f"{name} {_short(value)}" for name, value in named if value is not None)


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _style(axes: Any) -> None:
    axes.grid(color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(colors=FAINT, labelsize=8)
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(GRID)


def _title(report: Report) -> str:
    facts = report.facts
    goodput = f", goodput {report.goodput_req_s:.2f}" if report.slo.ttft_s or report.slo.tpot_s else ""
    return (
        f"{facts.model}: {facts.load}; {facts.lengths}\n"
        f"{report.completed} completed, {report.failed} failed, {report.refused} refused; {report.req_s:.2f}"
        f" requests a second{goodput}; {report.out_tok_s:.0f} answer tokens a second"
    )
