from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinfer.bench.serve.answer import Answer
from twinfer.bench.serve.events import Reader
from twinfer.bench.serve.workload import Job

from .fake import event, token, usage

JOB = Job(0, 0.0, 8, 4)


def chat(**delta: object) -> bytes:
    return event({"choices": [{"index": 0, "delta": delta, "finish_reason": None}], "usage": None})


def read(*pieces: bytes) -> tuple[Answer, Reader]:
    """Feed the pieces at seconds 1, 2, 3 ..."""
    answer = Answer(JOB, 0.0, 0.5)
    reader = Reader(answer)
    for second, piece in enumerate(pieces, 1):
        reader.feed(piece, float(second))
    return answer, reader


def test_a_plain_stream():
    answer, reader = read(token("a"), token("b"), token("", "length"), usage(2, 8, 5) + event("[DONE]"))
    assert answer.stamps == [1, 2]
    assert answer.last == 3
    assert (answer.tokens, answer.prompt_tokens, answer.cached_tokens) == (2, 8, 5)
    assert reader.finished
    assert not reader.failure


@given(st.lists(st.integers(0, 400), max_size=12))
def test_however_packets_are_cut_the_events_are_the_same(cuts):
    stream = b": hello\n\n" + token("ü") + token("b") + usage(2) + event("[DONE]")
    edges = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    answer, reader = read(*(stream[low:high] for low, high in pairwise(edges)))
    assert len(answer.stamps) == 2
    assert answer.tokens == 2
    assert reader.finished
    assert not reader.failure


def test_events_of_one_packet_have_one_time():
    answer, _ = read(token("a") + token("b"), token("c"))
    assert answer.stamps == [1, 1, 2]
    assert answer.itl == [0, 1]


def test_lines_may_end_with_carriage_returns_and_have_no_space():
    answer, reader = read(
        b'event: x\r\ndata:{"choices":[{"text":"a"}]}\r\n\r\ndata:[DONE]\r\n\r\n', token("b")
    )
    assert answer.stamps == [1, 2]
    assert reader.finished


def test_several_tokens_in_an_event_are_counted_by_the_usage():
    answer, _ = read(token("three tokens here"), token("three more words"), usage(6))
    assert len(answer.stamps) == 2
    assert answer.tokens == 6
    assert answer.tpot == pytest.approx(1 / 5)


def test_chat_deltas():
    end = event({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    answer, reader = read(chat(role="assistant", content=""), chat(content="a"), chat(reasoning="b"), end)
    assert answer.stamps == [2, 3]
    assert answer.last == 4
    assert reader.finished


def test_a_token_without_text_is_a_token():
    answer, _ = read(token(""), token("", "length"))
    assert answer.stamps == [1]
    assert read(chat(content=""))[0].stamps == [1]


@pytest.mark.parametrize(
    ("data", "failure"),
    [
        (event({"error": {"message": "engine died"}}), "error in the stream"),
        (b"data: {not json}\n\n", "malformed stream"),
        (b'data: {"choices": 3}\n\n', "malformed stream"),
    ],
)
def test_bad_events(data, failure):
    answer, reader = read(token("a"), data)
    assert reader.failure == failure
    assert answer.message
