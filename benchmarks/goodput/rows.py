"""Measuring a row: the searches, the elimination among chunk sizes, and the repeats side by side."""

from __future__ import annotations

from typing import NamedTuple

from benchmarks.goodput import elimination
from benchmarks.goodput.book import Book, Entry
from benchmarks.goodput.measure import one_by_one, probe_rate
from benchmarks.goodput.servers import launch
from benchmarks.goodput.summary import SEARCH
from benchmarks.goodput.table import (
    CHUNKED,
    CONVERSATION,
    DISAGGREGATED,
    ONE_BY_ONE,
    RIVAL_GUESSES,
    RIVAL_WORKLOAD,
    TRADITIONAL,
    WORKLOADS,
)
from benchmarks.measuring.quiet import BEARABLE
from benchmarks.measuring.serving import MeasureError
from twinfer.bench.serve import search
from twinfer.bench.serve.search import Search

LEAST, MOST, TOLERANCE = 0.05, 100.0, 0.05
MORE_TURNS = 8
"""One request after another takes longer or shorter by some 5 % from one server to the next of the same kind,
by the memory that each gets from the system."""

STEP = 1.21
"""From a guess to the next rate: two halvings later the rate is known within the tolerance."""


class Measuring(NamedTuple):
    """How much is measured: seconds of arrivals of a probe, repeats side by side, requests one by one.

    All targets are `slower` times as long as in the table, for a machine that is so much slower.
    """

    book: Book
    seconds: float
    seed: int
    turns: int
    requests: int
    rivals: tuple[str, ...]
    slower: float = 1.0


def measure_workload(to: Measuring, row: str) -> list[str]:
    """All servers under a workload; the rivals that could not be measured, and why.

    Raises:
        MeasureError: one of ours could not be measured.
    """
    workload = WORKLOADS[row].slower(to.slower)
    failed: list[str] = []
    print(f"{row}: {workload.title}; {workload.described}", flush=True)
    found = [(DISAGGREGATED, search_rate(to, row, DISAGGREGATED, workload.guess))]
    ours = found[0][1] or workload.guess
    found.append((TRADITIONAL, search_rate(to, row, TRADITIONAL, ours / workload.over_traditional)))
    found.append(best_of(to, row, CHUNKED, ours / workload.over_chunked))
    if row == RIVAL_WORKLOAD:
        searched, failed = search_rivals(to, row)
        found += searched
    for turn in range(1, to.turns + 1):
        for mode, rate in found:
            if rate:
                probe(to, row, mode, rate, turn)
    return failed


def search_rivals(to: Measuring, row: str) -> tuple[list[tuple[str, float]], list[str]]:
    """The rates of the rivals; and which could not be measured, and why."""
    found: list[tuple[str, float]] = []
    failed: list[str] = []
    for name in to.rivals:
        try:
            found.append((name, search_rate(to, row, name, RIVAL_GUESSES[name] / to.slower)))
        except MeasureError as error:  # noqa: PERF203
            failed.append(str(error))
            print(f"  {error}", flush=True)
    return found, failed


def search_rate(to: Measuring, row: str, mode: str, guess: float) -> float:
    """The highest rate that a mode passes; 0 if it passes none."""
    searching = _search(guess)
    while (rate := search.next_rate(searching)) is not None:
        searching = search.after(searching, rate, probe(to, row, mode, rate, SEARCH)["met"])
    return searching.passed or 0.0


def best_of(to: Measuring, row: str, modes: tuple[str, ...], guess: float) -> tuple[str, float]:
    """The mode that passes the highest rate, and that rate; the first one and 0 if none passes any."""
    now = elimination.begin(modes, _search(guess))
    while (wanted := elimination.next_probe(now)) is not None:
        entry = probe(to, row, *wanted, SEARCH)
        now = elimination.after(now, entry["met"], entry["attainment"])
    return now.best or modes[0], now.searching.passed or 0.0


def probe(to: Measuring, row: str, mode: str, rate: float, turn: int) -> Entry:
    """One rate against a fresh server, or what is known of it."""
    workload = WORKLOADS[row].slower(to.slower)
    ask = [*workload.load, *workload.targets, "--seconds", f"{to.seconds:g}", "--seed", f"{to.seed}"]
    entry, known = to.book.get(
        {"row": row, "mode": mode, "rate": rate, "turn": turn},
        lambda: probe_rate(launch(mode, workload.targets), ask, rate),
    )
    _say(mode, turn, known, _probed(entry), entry["others"])
    return entry


def measure_one_by_one(to: Measuring) -> None:
    """One request after another, without targets: every chunk once, then the best in turns with the others.

    Raises:
        MeasureError: a server could not be measured.
    """
    print(f"{ONE_BY_ONE}: {to.requests} requests of the Azure conversation, lengths ÷2", flush=True)
    first = {mode: one_by_one_seconds(to, mode, SEARCH, max(1, to.requests // 2)) for mode in CHUNKED}
    modes = (DISAGGREGATED, TRADITIONAL, min(first, key=first.__getitem__))
    for turn in range(1, to.turns + MORE_TURNS + 1):
        for place in range(len(modes)):  # Everyone comes first, second and last.
            one_by_one_seconds(to, modes[(turn + place) % len(modes)], turn, to.requests)


def one_by_one_seconds(to: Measuring, mode: str, turn: int, requests: int) -> float:
    ask = [*CONVERSATION, "--requests", f"{requests}", "--seed", f"{to.seed}"]
    entry, known = to.book.get(
        {"row": ONE_BY_ONE, "mode": mode, "turn": turn, "requests": requests},
        lambda: one_by_one(launch(mode, []), ask),
    )
    _say(mode, turn, known, f"{requests} requests in {entry['duration_s']:.2f} s", entry["others"])
    return float(entry["duration_s"])


def _search(guess: float) -> Search:
    return search.checked(Search(float(f"{guess:.4g}"), LEAST, MOST, TOLERANCE, STEP))


def _probed(entry: Entry) -> str:
    share = f"{100 * entry['attainment']:.1f} %"
    verdict = "passed" if entry["met"] else "missed, stopped early" if entry["stopped_early"] else "missed"
    return f"{entry['rate']:6.3f} req/s  {share:>7}  {verdict}"


def _say(mode: str, turn: int, known: bool, what: str, others: float) -> None:
    disturbed = [f"others took {others:.2f} cores"] if others > BEARABLE else []
    notes = ", ".join([*([f"turn {turn}"] if turn else []), *(["known"] if known else []), *disturbed])
    print(f"  {mode:<14} {what}  {notes and f'({notes})'}".rstrip(), flush=True)
