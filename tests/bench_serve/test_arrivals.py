from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinfer.bench.serve.arrivals import arrivals

seeds = st.integers(0, 1 << 32)
rates = st.floats(0.01, 1000)
shapes = st.floats(0.1, 20)


@given(rates, shapes, seeds, st.integers(1, 300))
def test_a_counted_load_comes_at_exactly_its_rate(rate, shape, seed, count):
    times = list(arrivals(rate, shape, seed, count))
    assert len(times) == count
    assert times == sorted(times)
    assert times[0] >= 0
    assert times[-1] == pytest.approx(count / rate)


@given(rates, rates, shapes, seeds)
def test_a_seed_gives_one_sequence_stretched_by_the_rate(rate, other, shape, seed):
    for count in (None, 40):
        one = np.array(list(islice(arrivals(rate, shape, seed, count), 40)))
        two = np.array(list(islice(arrivals(other, shape, seed, count), 40)))
        assert np.allclose(one * rate, two * other)


@pytest.mark.parametrize("shape", [0.25, 1.0, 4.0])
def test_gaps_have_the_mean_and_the_burstiness_asked_for(shape):
    times = np.array(list(islice(arrivals(5.0, shape, 7), 20_000)))
    gaps = np.diff(times)
    assert gaps.mean() == pytest.approx(1 / 5, rel=0.05)
    assert (gaps.mean() / gaps.std()) ** 2 == pytest.approx(shape, rel=0.1)


def test_an_infinite_rate_is_all_at_once():
    assert list(arrivals(float("inf"), 1.0, 0, 5)) == [0.0] * 5


def test_seeds_differ():
    assert list(arrivals(1.0, 1.0, 0, 5)) != list(arrivals(1.0, 1.0, 1, 5))
