"""What steps cost, learnt from those taken."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinfer.policy.costs import Answers, Costs, decode_seconds, learn, most_answers

SECONDS = st.floats(1e-5, 0.05)
ANSWERS = st.builds(Answers, st.integers(1, 64), st.integers(0, 100_000))


@given(st.floats(0, 0.02), st.floats(0, 0.002), st.lists(st.integers(1, 64), min_size=30, max_size=60))
def test_steps_on_a_line_are_foreseen(base, slope, batches):
    costs = Costs()
    for batch in batches:
        learn(costs, 0, Answers(batch, 0), base + slope * batch)
    recent = batches[-10:]
    if max(recent) - min(recent) >= 2:
        assert decode_seconds(costs, Answers(32, 0)) == pytest.approx(base + slope * 32, rel=1e-3, abs=1e-6)
    low, high = base + slope * min(batches), base + slope * max(batches)
    assert low - 1e-9 <= decode_seconds(costs, Answers(batches[-1], 0)) <= high + 1e-9


@given(st.floats(0.001, 0.02), st.floats(0.0001, 0.002), st.integers(2, 40), SECONDS)
def test_the_largest_batch_that_keeps_a_target_is_on_the_same_line(base, slope, usual, seconds):
    costs = Costs()
    assert most_answers(costs, seconds, 0) is None
    for batch in [usual - 1, usual, usual + 1] * 10:
        learn(costs, 0, Answers(batch, 0), base + slope * batch)
    most = most_answers(costs, seconds, 0)
    if most is None:
        assert base + slope * 1.9 * usual <= seconds
    elif most > 1:
        assert base + slope * most <= seconds * 1.001
        assert base + slope * (most + 1) >= seconds * 0.999


def test_steps_of_one_size_that_are_too_long_are_cut_in_proportion():
    costs = Costs()
    for _ in range(30):
        learn(costs, 0, Answers(20, 0), 0.020)
    assert most_answers(costs, 0.015, 0) == 15
    assert most_answers(costs, 0.0001, 0) == 1
    assert most_answers(costs, 0.05, 0) is None


def test_answers_in_a_step_are_not_counted_as_prompt():
    costs = Costs()
    assert decode_seconds(costs, Answers(5, 0)) == 0.0
    for _ in range(30):
        learn(costs, 0, Answers(8, 0), 0.010)
        learn(costs, 20, Answers(8, 0), 0.030)
    assert costs.token == pytest.approx(0.001)
    learn(costs, 20, Answers(8, 0), 0.005)
    assert 0 < costs.token < 0.001


@given(st.floats(0.001, 0.01), st.floats(1e-4, 1e-3), st.floats(0, 3e-6), st.integers(0, 99))
def test_steps_that_read_more_context_are_foreseen_to_take_longer(base, answer, token, seed):
    def seconds(answers):
        return base + answer * answers.count + token * answers.context

    mixed, costs = random.Random(seed), Costs()
    for _ in range(100):
        contexts = [mixed.choice((50, 300, 4000)) for _ in range(mixed.randint(1, 16))]
        taken = Answers(len(contexts), sum(contexts))
        learn(costs, 0, taken, seconds(taken))
    for answers in (Answers(1, 50), Answers(8, 2400), Answers(8, 16_000), Answers(16, 32_000)):
        assert decode_seconds(costs, answers) == pytest.approx(seconds(answers), rel=0.1)
    short, long = (most_answers(costs, seconds(Answers(10, 10 * each)), each) for each in (300, 2000))
    assert short in (9, 10, 11)
    assert long in (9, 10, 11)


@given(st.floats(0.001, 0.01), st.floats(1e-4, 1e-3), st.integers(1, 4000))
def test_where_context_grows_with_the_answers_it_is_the_answers_that_count(base, answer, each):
    costs = Costs()
    for batch in (5, 6, 7, 8) * 5:
        learn(costs, 0, Answers(batch, batch * each), base + answer * batch)
    assert decode_seconds(costs, Answers(10, 10 * each)) == pytest.approx(base + answer * 10)
    assert decode_seconds(costs, Answers(10, 20 * each)) == pytest.approx(base + answer * 10)


@given(st.lists(st.tuples(ANSWERS, SECONDS), min_size=1, max_size=50), ANSWERS, ANSWERS, SECONDS)
def test_more_never_seems_to_take_less(steps, some, more, seconds):
    costs = Costs()
    for taken, lasted in steps:
        learn(costs, 0, taken, lasted)
    both = Answers(some.count + more.count, some.context + more.context)
    assert 0 <= decode_seconds(costs, some) <= decode_seconds(costs, both) + 1e-12
    fewer, most = (most_answers(costs, seconds, context) or 10**9 for context in (4000, 40))
    assert 1 <= fewer <= most
