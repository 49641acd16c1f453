"""The overload benchmark without a server: what is said of the answers, and where it is written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.measuring.record import DOCS, RESULTS
from benchmarks.overload.docs import show, write
from benchmarks.overload.offered import kept, outcome
from tests.bench_serve.answers import answered
from twinfer.bench.serve.measures import Slo

SLO = Slo(1.0, 0.1)
MARK = "<!-- table: benchmarks.overload --save twice on any -->"


def figures(times: float = 2.0, good: int = 18) -> dict[str, Any]:
    """Of two seconds at a capacity of 10 requests a second."""
    answers = [
        *(answered(0.5, [0.05]) for _ in range(good)),
        *(answered(2.0, [0.05]) for _ in range(2)),
        *(answered(0.01, [], failure="refused") for _ in range(20)),
    ]
    return {
        "prompt_tokens": "256",
        "answer_tokens": "64",
        "targets": {"ttft_s": 1.0, "tpot_s": 0.1},
        "capacity_req_s": 10.0,
        "offered_req_s": 20.0,
        "seconds": 2.0,
        **outcome(answers, SLO),
        **kept(answers, SLO, 2.0, 10.0, times),
        "recovery_seconds": None,
        "memory_mib": [
            {"seconds": 0.0, "own": 5.0, "shared": 7.0},
            {"seconds": 5.0, "own": 6.0, "shared": 7.0},
        ],
    }


@pytest.mark.parametrize(("good", "share", "met"), [(18, 0.9, True), (16, 0.8, True), (15, 0.75, False)])
def test_the_goodput_under_twice_the_load_as_a_share_of_the_capacity(good, share, met):
    found = figures(good=good)
    assert (found["goodput_req_s"], found["goodput_share"]) == (good / 2, share)
    assert (found["aim"], found["met"]) == (0.8, met)
    assert (found["completed"], found["refused"], found["failed"]) == (good + 2, 20, {})
    assert found["attainment_of_admitted"] == round(good / (good + 2), 4)


def test_nothing_is_aimed_at_under_other_loads():
    assert not {"aim", "met"} & figures(times=10.0).keys()


def test_the_document_that_has_a_place_gets_the_table(tmp_path: Path):
    (tmp_path / "one.md").write_text(f"before\n{MARK}\nold\n<!-- end -->\nafter\n")
    (tmp_path / "other.md").write_text("other\n")
    where = {"cpu": "any", "cores": 2, "commit": "abc", "date": "today"}
    show(figures())
    write("twice", {"machine": where, **figures()}, tmp_path)
    text = (tmp_path / "one.md").read_text()
    assert text.startswith(f"before\n{MARK}\n20.0 requests a second for 2 s")
    assert text.endswith("<!-- end -->\nafter\n")
    assert "old" not in text
    assert "| of the capacity | 90 % (aimed at: 80 % or more; met) |" in text
    assert "| refused with 429 | 20, after 10 ms in the median |" in text
    assert "| not in 30 s |" in text
    assert (tmp_path / "other.md").read_text() == "other\n"


@pytest.mark.parametrize("name", ["overload", "overload-twice"])
def test_documents_have_a_place_for_what_is_saved_and_show_it(name: str, tmp_path: Path):
    holding = [
        path for path in DOCS.glob("*.md") if f"benchmarks.overload --save {name} on " in path.read_text()
    ]
    assert len(holding) == 1
    for record in RESULTS.glob(f"*/{name}.json"):
        (tmp_path / "copy.md").write_text(holding[0].read_text())
        write(name, json.loads(record.read_text()), tmp_path)
        assert (tmp_path / "copy.md").read_text() == holding[0].read_text()
