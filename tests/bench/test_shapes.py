"""Shapes as written on the command line."""

from __future__ import annotations

import pytest

from twinfer.bench.engine import Options, pages_needed
from twinfer.bench.shapes import Prompts, page_tables, parse_counts, parse_prompts
from twinfer.bench.timing import repeat, timing
from twinfer.errors import ConfigError


def test_shapes() -> None:
    assert parse_prompts("8x512, 4x2048") == [Prompts(8, 512), Prompts(4, 2048)]
    assert parse_counts("1,4 ,16") == [1, 4, 16]
    assert parse_prompts("") == parse_counts(" ") == []
    assert Prompts(4, 2048).tokens == 8192


@pytest.mark.parametrize("text", ["8", "0x5", "8x", "8x512,", "8x512x2", "-1x4", "8×512"])
def test_wrong_prompts(text: str) -> None:
    with pytest.raises(ConfigError, match="is no shape of prompts; write for example 8x512"):
        parse_prompts(text)


@pytest.mark.parametrize("text", ["0", "1,,2", "two", "1.5"])
def test_wrong_counts(text: str) -> None:
    with pytest.raises(ConfigError, match="is no batch size; write for example 1,4,16"):
        parse_counts(text)


def test_sequences_never_share_a_page() -> None:
    tables = page_tables(3, 33, 16)
    assert [len(table) for table in tables] == [3, 3, 3]
    assert sorted(page for table in tables for page in table) == list(range(9))


def test_the_pool_holds_the_largest_batch() -> None:
    options = Options(
        threads=1,
        isa="generic",
        prefill=[Prompts(8, 512), Prompts(1, 100)],
        decode=[1, 64],
        context=60,
        steps=4,
    )
    assert options.final_length == 60 + 3 + 4 + 1
    assert pages_needed(options) == 64 * 5
    assert pages_needed(Options(threads=1, isa="generic", prefill=[Prompts(8, 512)], decode=[])) == 8 * 32


def test_timing_is_the_median() -> None:
    assert timing([3.0, 1.0, 2.0]).seconds == 2.0
    assert timing([3.0, 1.0, 2.0]).spread == 1.0
    assert timing([5.0]).spread == 0.0


def test_repeats_end_with_patience() -> None:
    made: list[float] = []

    def measure() -> float:
        made.append(1.0)
        return 1.0

    repeat(measure, 5, patience=100.0)
    assert len(made) == 5
    repeat(measure, 5, patience=0.0)
    assert len(made) == 6
