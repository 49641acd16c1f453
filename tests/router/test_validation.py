"""What a router makes of arbitrary bytes and arbitrary structs from an engine: an error, or the truth."""

import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.refusals import refusal
from twinfer.errors import BadMessageError, one_line
from twinfer.messages import FromEngine, Released, Sampling, Stale, Step, ToEngine, Usage, decode
from twinfer.router.engines import EngineView
from twinfer.router.generation import Generation
from twinfer.router.request import Request, State
from twinfer.router.validation import check_released, check_stale, check_step, check_usage
from twinfer.timeline import Timeline

VOCAB = 40
DECODERS = [msgspec.msgpack.Decoder(kind) for kind in (FromEngine, ToEngine)]
NUMBERS = st.integers(-2, 6) | st.integers(-(1 << 63), (1 << 64) - 1)
TIMES = st.floats() | st.floats(0, 10)
STEPS = st.builds(
    Step,
    st.lists(NUMBERS, max_size=4),
    st.lists(NUMBERS | st.integers(0, VOCAB), max_size=4),
    st.lists(NUMBERS, max_size=4),
    st.lists(st.tuples(NUMBERS, NUMBERS), max_size=2),
    TIMES,
    TIMES,
    NUMBERS,
    NUMBERS,
)


def request(number, state, tokens, computed):
    generation = Generation([1] * 4, Sampling(), 4, (9,))
    nothing = dict.fromkeys(("on_tokens", "on_end"), lambda *_: None)
    made = Request(
        id=number, generation=generation, max_length=8, timeline=Timeline(), tokens=[1] * tokens, **nothing
    )
    made.state, made.computed, made.engine, made.placement = state, computed, "mixed-0", 2
    return made


def view():
    """Prompt 1 of 4 tokens, of which 1 is computed; 2 has its answer's first token, 3 all but the last."""
    prompt = request(1, State.PREFILLING, 4, 1)
    answers = [request(2, State.DECODING, 5, 4), request(3, State.LEAVING, 7, 6)]
    return EngineView("mixed-0", "mixed", False, {1: prompt}, {answer.id: answer for answer in answers})


def accepts(check, *arguments):
    message = refusal(BadMessageError, check, *arguments)
    assert message is None or message.startswith("bad message: ")
    return message is None


@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_a_message_or_an_error(frame):
    for decoder in DECODERS:
        accepts(decode, decoder, frame)


def test_what_a_frame_says_stays_on_a_line():
    frame = msgspec.msgpack.encode(["\n\u2028\x85" * 9])
    assert not accepts(decode, DECODERS[0], frame)


def test_nesting_without_end_is_an_error():
    frame = b"\x99\xa4load\x92\x92\x01\x01\x81\xa1a" + b"\x91" * 100000
    assert not accepts(decode, DECODERS[1], frame)


@given(STEPS)
def test_a_step_that_is_accepted_is_true(step):
    held = view()
    if not accepts(check_step, step, held, VOCAB, 10.0):
        return
    assert len(set(step.requests)) == len(step.requests) == len(step.tokens) == len(step.finishes)
    assert set(step.requests) <= {1, 2, 3}
    assert all(0 <= token < VOCAB for token in step.tokens)
    assert all(number == 1 and 1 < computed < 4 for number, computed in step.chunks)
    assert 0 <= step.began <= step.ended <= 10
    # Whatever is accepted, the view can count, and the answers stay within their length.
    held.count(step, helped=False)
    assert math.isfinite(held.work.busy)


@pytest.mark.parametrize(
    "step",
    [
        Step([], [], [], [], 1, 2, 0, 0, 0),
        Step([], [], [], [(1, 3)], 1, 2, 2, 0, 0),
        Step([1, 2], [5, 6], [0, 0], [], 1, 2, 3, 1, 2),
        Step([2, 3], [9, 6], [1, 2], [], 1, 1, 0, 2, 4),
    ],
)
def test_true_steps_are_accepted(step):
    assert accepts(check_step, step, view(), VOCAB, 10.0)


USAGES = st.builds(Usage, st.lists(TIMES, max_size=3), NUMBERS, TIMES, TIMES, TIMES)


@given(USAGES, USAGES)
def test_usage_that_is_accepted_counts_up_to_what_the_clock_says(first, second):
    held = view()
    held.cores = [(0, False), (1, True)]
    seen = [0.0] * 5
    for usage in (first, second):
        if not accepts(check_usage, usage, held, 10.0):
            continue
        held.usage = usage
        counts = [*usage.cores, usage.paced_seconds, usage.late_seconds, usage.latest]
        assert all(0 <= before <= after <= 10 for before, after in zip(seen, counts, strict=True))
        seen = counts
    assert [core for core, _, _ in held.core_seconds] == [0, 1]


def test_true_usage_is_accepted():
    held = view()
    held.cores = [(0, False), (1, True)]
    for seconds in (0.0, 1.0, 1.0, 9.5):
        held.usage = Usage([seconds, seconds / 2], int(seconds), seconds, seconds, seconds)
        assert accepts(check_usage, held.usage, held, 10.0)
    assert not accepts(check_usage, Usage([9.5], 9, 9.5, 9.5, 9.5), held, 10.0)
    assert not accepts(check_usage, Usage([9.5, 4.0], 9, 9.5, 9.5, 9.5), held, 10.0)


@given(st.lists(NUMBERS, max_size=4))
def test_stale_pages_are_those_of_its_requests(numbers):
    possible = 0 < len(numbers) == len(set(numbers)) and set(numbers) <= {1, 2, 3}
    assert accepts(check_stale, Stale(numbers), view()) == possible


@given(NUMBERS, NUMBERS, st.sampled_from(State))
def test_releases_answer_a_cancel(number, placement, state):
    held = view()
    asked = held.get(number)
    if asked is not None:
        asked.state = state
    possible = 0 < number <= 5 and placement >= 1
    if asked is not None and state is not State.QUEUED:
        possible = possible and (placement < 2 or (placement == 2 and state is State.LEAVING))
    assert accepts(check_released, Released(number, placement), held, asked, 5) == possible


@given(st.text())
def test_an_engine_s_own_words_are_one_line(text):
    line = one_line(text)
    assert len(line) <= 500
    assert len(line.splitlines()) <= 1
