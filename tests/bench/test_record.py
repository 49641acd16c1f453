"""Where figures are kept: those of one machine beside, and never over, those of another."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.measuring.record import fill, picture, short_name

OLD, NEW = {"cpu": "AMD EPYC (family 26, model 2)"}, {"cpu": "Xeon\u00ae Gold"}


def test_a_machine_has_a_short_name_that_a_path_can_hold():
    assert short_name(OLD) == "amd-epyc-family-26-model-2"
    assert picture(NEW, "engines") == "pictures/xeon-gold/engines.png"


def test_a_new_machine_s_table_comes_after_the_others(tmp_path: Path):
    document = tmp_path / "one.md"
    document.write_text(
        "before\n<!-- table: benchmarks.a -->\nplain\n<!-- end -->\n"
        f"<!-- table: benchmarks.b on {short_name(OLD)} -->\nold\n<!-- end -->\nafter\n"
    )
    for lines in (["new"], ["newer", "still"]):
        fill(document, "b", lines, NEW)
    fill(document, "a", ["plainer"])
    assert document.read_text() == (
        "before\n<!-- table: benchmarks.a -->\nplainer\n<!-- end -->\n"
        f"<!-- table: benchmarks.b on {short_name(OLD)} -->\nold\n<!-- end -->\n\n"
        f"<!-- table: benchmarks.b on {short_name(NEW)} -->\nnewer\nstill\n<!-- end -->\nafter\n"
    )


def test_a_document_without_a_place_is_an_error_and_stays_as_it_is(tmp_path: Path):
    document = tmp_path / "one.md"
    document.write_text("nothing\n")
    with pytest.raises(ValueError, match=r"one\.md has no place for what benchmarks\.b writes"):
        fill(document, "b", ["new"], NEW)
    assert document.read_text() == "nothing\n"
