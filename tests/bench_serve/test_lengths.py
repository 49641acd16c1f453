from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinfer.bench.serve.lengths import Lengths, clipped, draw, parse, scaled
from twinfer.errors import ConfigError

sizes = st.integers(1, 200_000)


def drawn(text: str, count: int = 2000) -> np.ndarray:
    return np.array(list(islice(draw(parse("input", text), 2, 5), count)))


def test_fixed():
    assert set(drawn("256")) == {256}


def test_uniform_has_both_ends():
    found = drawn("uniform:3-9")
    assert set(found) == set(range(3, 10))


def test_lognormal():
    found = drawn("lognormal:256,0.8")
    assert np.median(found) == pytest.approx(256, rel=0.1)
    assert np.log(found).std() == pytest.approx(0.8, rel=0.1)
    assert drawn("lognormal:1,3").min() == 1


def test_the_same_seed_draws_the_same_and_streams_differ():
    spec = parse("input", "uniform:1-1000")
    one, again, other = (list(islice(draw(spec, *of), 50)) for of in ((2, 5), (2, 5), (3, 5)))
    assert one == again != other


@pytest.mark.parametrize(
    "text", ["", "0", "-3", "1.5", "uniform:9-3", "uniform:0-3", "uniform:3", "lognormal:5", "normal:3,4"]
)
def test_what_is_no_length_is_refused_in_one_line(text):
    with pytest.raises(ConfigError, match="input must") as caught:
        parse("input", text)
    assert "\n" not in str(caught.value)


@given(sizes, sizes, st.none() | st.integers(2, 10_000))
def test_clipped_lengths_fit_and_are_cut_no_more_than_needed(prompt, answer, max_len):
    wanted = Lengths(prompt, answer)
    found = clipped(wanted, max_len)
    assert 1 <= found.input <= prompt
    assert 1 <= found.output <= answer
    if max_len is None or prompt + answer <= max_len:
        assert found == wanted
    else:
        assert found.input + found.output == max_len
        assert found.output == answer or found.input in (prompt, max_len // 2)


@given(sizes, st.floats(0.001, 10))
def test_scaled_is_never_nothing(length, scale):
    assert scaled(length, scale) == max(1, round(length * scale))
