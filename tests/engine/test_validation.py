"""What an engine makes of arbitrary messages: an error, or something that it can compute."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.refusals import refusal
from twinfer.engine.sequence import Sequence
from twinfer.engine.validation import Bounds, check, check_load
from twinfer.errors import BadMessageError
from twinfer.messages import (
    Cancel,
    Decode,
    Grant,
    Load,
    Place,
    Pool,
    Prefill,
    Region,
    Sampling,
    Task,
    Weights,
)

BOUNDS = Bounds(vocab=50, pages=8, page_tokens=4)
NUMBERS = st.integers(-1, 9) | st.integers(-(1 << 63), (1 << 64) - 1)
REALS = st.floats() | st.floats(0, 2)
TASKS = st.builds(
    Task,
    st.builds(Sampling, REALS, NUMBERS, REALS, REALS, NUMBERS),
    st.lists(NUMBERS, max_size=2).map(tuple),
    NUMBERS | st.integers(1, 40),
    REALS,
    NUMBERS,
) | st.builds(Task, st.just(Sampling()), st.just(()), st.integers(1, 40))
TOKENS = st.lists(st.integers(0, 55), max_size=12) | st.lists(NUMBERS, max_size=3)
PAGES = st.lists(st.integers(-1, 9), max_size=5)
STARTS = st.one_of(
    *(st.builds(kind, NUMBERS, TOKENS, NUMBERS, PAGES, PAGES, TASKS) for kind in (Prefill, Decode))
)
GRANTS = st.builds(Grant, NUMBERS, PAGES, PAGES)
TASK = Task(Sampling(), (), 30)
START = Prefill(1, [1, 2, 3], 4, [0, 1], [1, 1], TASK)
REGION = Region(3, 64)
LOAD = Load(Weights(REGION, {}), None, Pool(REGION, 16, "f32"), Place(REGION, 2, 1, 5, [(0, 0)]), 16, 4, 0.1)


def accepts(message, room=None, bounds=BOUNDS):
    return refusal(BadMessageError, check, message, bounds, lambda number: room) is None


def changed(message, **changes):
    return msgspec.structs.replace(message, **changes)


@given(STARTS)
def test_what_is_accepted_fits_into_arrays_and_the_pool(start):
    if not accepts(start):
        return
    sequence = Sequence(start, BOUNDS.page_tokens)
    assert set(sequence.tokens.tolist()) <= set(range(BOUNDS.vocab))
    assert set(sequence.pages[: sequence.held].tolist()) <= set(range(BOUNDS.pages))
    assert sequence.held * BOUNDS.page_tokens >= sequence.computed
    assert len(sequence.pages) <= BOUNDS.pages
    assert 0 < start.computed + len(start.tokens) < start.task.max_length


@given(GRANTS, st.none() | st.integers(0, 4))
def test_grants_fit_into_the_table(grant, room):
    if accepts(grant, room) and room is not None:
        sequence = Sequence(changed(START, task=changed(TASK, max_length=32)), 4)
        sequence.grant(grant.pages[:room], grant.stamps[:room])


@pytest.mark.parametrize(
    "bad",
    [
        changed(START, tokens=[]),
        changed(START, tokens=[50]),
        changed(START, tokens=[-1]),
        changed(START, computed=-1),
        changed(START, computed=9),
        changed(START, computed=28, pages=list(range(8)), stamps=[1] * 8),
        changed(START, pages=[0, 8]),
        changed(START, pages=[0, 0]),
        changed(START, pages=[]),
        changed(START, stamps=[1]),
        changed(START, stamps=[1, 1 << 32]),
        changed(START, request=0),
        changed(START, task=changed(TASK, max_length=33)),
        changed(START, task=changed(TASK, max_length=4)),
        changed(START, task=changed(TASK, arrived=float("nan"))),
        changed(START, task=changed(TASK, due=float("nan"))),
        changed(START, task=changed(TASK, priority=1 << 40)),
        changed(START, task=changed(TASK, sampling=Sampling(float("nan")))),
        changed(START, task=changed(TASK, sampling=Sampling(top_k=-1))),
        changed(START, task=changed(TASK, sampling=Sampling(seed=-1))),
        Cancel(1, 0),
        LOAD,
    ],
)
def test_what_cannot_be_meant(bad):
    assert accepts(START)
    assert not accepts(bad)


def test_a_request_comes_once_and_grants_for_those_that_ended_are_late_not_wrong():
    assert not accepts(START, room=3)
    grant = Grant(1, [5, 6], [1, 1])
    assert accepts(grant, room=2)
    assert not accepts(grant, room=1)
    assert accepts(grant)


@pytest.mark.parametrize(
    "changes",
    [
        {"prefill_chunk": -1},
        {"max_batch_size": 0},
        {"slo_tpot": 0.0},
        {"slo_tpot": float("nan")},
        {"pool": Pool(Region(3, 0), 16, "f32")},
        {"pool": Pool(REGION, 0, "f32")},
        {"decode": Weights(Region(-1, 64), {})},
        {"place": Place(REGION, 2, 2, 5, [])},
        {"place": Place(REGION, 0, 0, 5, [])},
        {"place": Place(REGION, 2, 1, 5, [(0, 7)])},
        {"place": Place(REGION, 2, 1, 5, [(-1, 0)])},
    ],
)
def test_loads_of_impossible_sizes(changes):
    check_load(LOAD)
    with pytest.raises(BadMessageError):
        check_load(changed(LOAD, **changes))
