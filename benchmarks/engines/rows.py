"""What the engines are compared on, how much faster than the best rival Twinfer must be, and what it was."""

from __future__ import annotations

import statistics
from typing import Any, NamedTuple

OURS = {"twinfer": "Twinfer", "twinfer_int8": "Twinfer, 8-bit KV"}
"""As it is by default, and with KV of as many bits as OpenVINO's."""


class Row(NamedTuple):
    """A measurement, and the ratio that it must reach at least (`floor`) and should (`aim`)."""

    phase: str
    shape: str
    threads: int
    floor: float
    aim: float

    @property
    def title(self) -> str:
        what = self.shape if self.phase == "prefill" else f"batch {self.shape}"
        return f"{self.phase} {what}, {self.threads} thread{'s' if self.threads > 1 else ''}"


class Measured(NamedTuple):
    """One engine's figure: tokens a second, cores that others took, share of the roofline, what was run."""

    tok_s: float
    others: float
    share: float | None
    facts: dict[str, Any]


ROWS = (
    Row("prefill", "8x512", 2, 1.45, 1.7),
    Row("prefill", "4x2048", 2, 1.35, 1.7),
    Row("prefill", "8x512", 1, 1.45, 1.7),
    Row("decode", "1", 1, 2.2, 2.8),
    Row("decode", "1", 2, 1.8, 2.3),
    Row("decode", "16", 1, 2.6, 3.5),
    Row("decode", "16", 2, 2.4, 3.2),
    Row("decode", "64", 2, 2.5, 3.5),
)


def reached(row: dict[str, Any], name: str) -> str:
    """What a summary says of one of ours: "aim", "floor" or "below"."""
    ratio = row["ratio"][name]
    return "aim" if ratio >= row["aim"] else "floor" if ratio >= row["floor"] else "below"


def summary(row: Row, rounds: list[dict[str, Measured]]) -> dict[str, Any]:
    """Medians of the rounds, and of their ratios against the best rival of each."""
    rivals = [name for name in rounds[0] if name not in OURS]
    ours = [name for name in rounds[0] if name in OURS]

    def median(name: str) -> float:
        return round(statistics.median(found[name].tok_s for found in rounds), 1)

    best = [max(found[name].tok_s for name in rivals) for found in rounds]
    ratios = {name: [found[name].tok_s / b for found, b in zip(rounds, best, strict=True)] for name in ours}
    shares = [found["twinfer"].share or 0.0 for found in rounds]
    return {
        "row": row.title,
        "tok_s": {name: median(name) for name in (*ours, *rivals)},
        "best_rival": max(rivals, key=median),
        "ratio": {name: round(statistics.median(each), 3) for name, each in ratios.items()},
        "ratios": {name: [round(ratio, 3) for ratio in each] for name, each in ratios.items()},
        "floor": row.floor,
        "aim": row.aim,
        "roofline": round(statistics.median(shares), 3),
        "disturbed": round(max(done.others for found in rounds for done in found.values()), 3),
        "facts": {name: done.facts for name, done in rounds[0].items()},
    }
