"""What follows from the measurements: rates, ratios and whether they are what was aimed at. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from benchmarks.goodput.table import (
    CHUNKED,
    DISAGGREGATED,
    ITL_AIM,
    ITL_WORKLOAD,
    ONE_BY_ONE,
    ONE_BY_ONE_AIM,
    RIVAL_AIM,
    RIVAL_WORKLOAD,
    TRADITIONAL,
    WORKLOADS,
)

Entry = dict[str, Any]
SEARCH = 0
"""The turn of a search's probes; the repeats side by side have 1 and more."""


def summary(entries: Sequence[Entry]) -> dict[str, Any]:
    """All rows that have been measured whole, by name."""
    rows: dict[str, Any] = {}
    for name in WORKLOADS:
        of = [entry for entry in entries if entry["row"] == name]
        if row := workload_row(name, of):
            rows[name] = row
    if row := one_by_one_row([entry for entry in entries if entry["row"] == ONE_BY_ONE]):
        rows[ONE_BY_ONE] = row
    return rows


def best_rate(entries: Sequence[Entry], mode: str) -> float:
    """The highest rate that passed in a mode's search; 0 if none did."""
    passed = [e["rate"] for e in entries if e["mode"] == mode and e["turn"] == SEARCH and e["met"]]
    return max(passed, default=0.0)


def best_chunked(entries: Sequence[Entry]) -> str | None:
    """The chunked mode of the highest rate, then the highest attainment; None if none passed."""
    passed = [
        (e["rate"], e["attainment"], e["mode"])
        for e in entries
        if e["mode"] in CHUNKED and e["turn"] == SEARCH and e["met"]
    ]
    return max(passed)[2] if passed else None


def rivals_of(entries: Sequence[Entry]) -> list[str]:
    known = (DISAGGREGATED, TRADITIONAL, *CHUNKED)
    return sorted({entry["mode"] for entry in entries} - set(known))


def workload_row(name: str, entries: Sequence[Entry]) -> dict[str, Any] | None:
    """A workload's figures; None before all three kinds of server have been searched."""
    modes = {entry["mode"] for entry in entries if entry["turn"] == SEARCH}
    if not {DISAGGREGATED, TRADITIONAL} <= modes or not modes & set(CHUNKED):
        return None
    workload = WORKLOADS[name].slower(entries[0].get("slower", 1))
    chunked = best_chunked(entries)
    shown = [DISAGGREGATED, TRADITIONAL, *([chunked] if chunked else []), *rivals_of(entries)]
    rates = {mode: best_rate(entries, mode) for mode in shown}
    ours = rates[DISAGGREGATED]
    over = {mode: ratio(ours, rate) for mode, rate in rates.items() if mode != DISAGGREGATED}
    aims = {TRADITIONAL: workload.over_traditional}
    if chunked:
        aims[chunked] = workload.over_chunked
    if name == RIVAL_WORKLOAD:
        aims |= dict.fromkeys(rivals_of(entries), RIVAL_AIM)
    return {
        "title": workload.title,
        "targets": workload.described,
        "best_chunked": chunked,
        "goodput_req_s": rates,
        "over": over,
        "aims": aims,
        "met": {mode: over[mode] is None or over[mode] >= aim for mode, aim in aims.items()} if ours else {},
        "again": {mode: again(entries, mode) for mode in shown},
        **of_all(entries),
        **({"itl": itl(entries, workload.tpot)} if name == ITL_WORKLOAD else {}),
    }


def of_all(entries: Sequence[Entry]) -> dict[str, Any]:
    """Which code was measured and when, and how many cores others kept busy meanwhile, the median.

    Not while rivals were measured: their processes are not all ours, and would count as others.
    """
    ours = [entry["others"] for entry in entries if entry["mode"] not in rivals_of(entries)]
    return {
        "measured": sorted({f"{e['code']} ({e['at'][:10]}, probes of {e['seconds']:g} s)" for e in entries}),
        "others": round(statistics.median(ours), 3),
    }


def ratio(ours: float, theirs: float) -> float | None:
    """Of two rates; None where the other is nothing."""
    return round(ours / theirs, 3) if theirs else None


def again(entries: Sequence[Entry], mode: str) -> list[float]:
    """Attainments when the rate that was found was tried once more, in turns with the others."""
    repeats = [entry for entry in entries if entry["mode"] == mode and entry["turn"] > SEARCH]
    return [entry["attainment"] for entry in sorted(repeats, key=lambda entry: entry["turn"])]


def itl(entries: Sequence[Entry], tpot: float) -> dict[str, Any]:
    """P99 of the gaps between tokens of the disaggregated server at its goodput rate, over the target."""
    rate = best_rate(entries, DISAGGREGATED)
    p99 = [e["itl_ms"]["p99"] for e in entries if e["mode"] == DISAGGREGATED and e["rate"] == rate]
    value = statistics.median(p99)
    over = value / (1000 * tpot)
    return {
        "target_ms": 1000 * tpot,
        "p99_ms": value,
        "over_target": round(over, 3),
        "aim": ITL_AIM,
        "met": over <= ITL_AIM,
    }


def one_by_one_row(entries: Sequence[Entry]) -> dict[str, Any] | None:
    """Medians of the total times and of their ratios, turn by turn; None before the first full turn."""
    turns: dict[int, dict[str, float]] = {}
    for entry in entries:
        if entry["turn"] > SEARCH:
            turns.setdefault(entry["turn"], {})[entry["mode"]] = entry["duration_s"]
    whole = [turn for turn in turns.values() if {DISAGGREGATED, TRADITIONAL} < set(turn)]
    if not whole:
        return None
    others = [TRADITIONAL, next(mode for mode in whole[0] if mode in CHUNKED)]
    ratios = {mode: [round(turn[DISAGGREGATED] / turn[mode], 3) for turn in whole] for mode in others}
    over = {mode: round(statistics.median(of), 3) for mode, of in ratios.items()}
    return {
        "requests": max(entry["requests"] for entry in entries),
        "best_chunked": others[1],
        "seconds": {
            mode: round(statistics.median(t[mode] for t in whole), 2) for mode in (DISAGGREGATED, *others)
        },
        "over": over,
        "ratios": ratios,
        "aims": dict.fromkeys(others, ONE_BY_ONE_AIM),
        "met": {mode: value <= ONE_BY_ONE_AIM for mode, value in over.items()},
        **of_all(entries),
    }
