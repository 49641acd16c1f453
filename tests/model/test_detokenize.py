"""Streamed text: whole characters, no part of a stop string, the same total however tokens are grouped."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinfer.model.detokenize import TextStream


class Words:
    """A tokeniser whose tokens are given byte strings."""

    def __init__(self, words: Sequence[bytes]) -> None:
        self.words = words

    def token_bytes(self, token: int) -> bytes:
        return self.words[token]


def pieces(words: Sequence[bytes], stop: Sequence[str] = ()) -> tuple[list[str], bool]:
    """What one push per word shows, then what `finish` does."""
    stream = TextStream(Words(words), stop)
    shown = [stream.push([i]) for i in range(len(words))]
    return [*shown, stream.finish()], stream.stopped


def test_half_characters_wait() -> None:
    robot = "🤖".encode()
    assert pieces([b"a" + robot[:1], robot[1:3], robot[3:] + b"b"]) == (["a", "", "🤖b", ""], False)


def test_half_a_character_at_the_end_is_replaced() -> None:
    assert pieces([b"a", "é".encode()[:1]]) == (["a", "", "\ufffd"], False)


def test_broken_bytes_are_replaced_at_once() -> None:
    assert pieces([b"\xff", b"\xf0\x9f", b"a"]) == (["\ufffd", "", "\ufffda", ""], False)


def test_stop_string_over_many_tokens() -> None:
    assert pieces([b"so E", b"N", b"", b"D", b" more"], ["END"]) == (["so ", "", "", "", "", ""], True)


def test_what_only_looked_like_a_stop_string_is_shown() -> None:
    assert pieces([b"a E", b"N", b"E", b"N"], ["END"]) == (["a ", "", "EN", "", "EN"], False)


def test_overlapping_beginnings() -> None:
    assert pieces([b"aa", b"a", b"b"], ["aab"]) == (["", "a", "", ""], True)


@pytest.mark.parametrize(
    ("text", "stop", "left"),
    [
        (b"one two three", ["three", "two"], "one "),
        (b"abcd", ["abcd", "bc"], "a"),
        (b"abcd", ["bcd", "cd", "d"], "a"),
        (b"abc", ["", "c"], "ab"),
        (b"END", ["END"], ""),
    ],
)
def test_of_several_the_first_complete_one_ends_the_text(text: bytes, stop: list[str], left: str) -> None:
    assert ("".join(pieces([text], stop)[0]), pieces([text], stop)[1]) == (left, True)


def test_nothing_comes_after_a_stop() -> None:
    stream = TextStream(Words([b"aXb", b"c"]), ["X"])
    assert (stream.push([0]), stream.stopped, stream.push([1]), stream.finish()) == ("a", True, "", "")


ALPHABET = ["a", "b", "é", "🤖"]
WORDS = st.lists(st.binary(max_size=3) | st.text(ALPHABET, max_size=4).map(str.encode), max_size=12)


@given(data=st.data(), words=WORDS, stop=st.lists(st.text(ALPHABET, min_size=1, max_size=4), max_size=3))
def test_grouping_changes_nothing(data: st.DataObject, words: list[bytes], stop: list[str]) -> None:
    whole = TextStream(Words(words), stop)
    expected = whole.push(range(len(words))) + whole.finish()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(words)), max_size=6)))
    stream, shown = TextStream(Words(words), stop), ""
    for begin, end in zip([0, *cuts], [*cuts, len(words)], strict=True):
        shown += stream.push(range(begin, end))
        assert expected.startswith(shown)
    assert shown + stream.finish() == expected
    assert stream.stopped == whole.stopped
    text = b"".join(words).decode(errors="replace")
    assert whole.stopped == any(word in text for word in stop)
    assert text.startswith(expected)
    assert all(word not in expected for word in stop)
    assert whole.stopped or expected == text
