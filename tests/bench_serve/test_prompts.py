import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from twinfer.bench.serve.prompts import TOKENS, WORDS, as_text, as_tokens, numbers

small = st.integers(0, 1 << 20)
blocks = st.lists(st.integers(0, 5000), max_size=6)
scales = st.sampled_from([0.01, 0.125, 0.3, 0.5, 1.0])


@given(small, small, small, st.integers(1, 2000), blocks, scales)
def test_as_many_tokens_as_asked_for_all_of_the_vocabulary(seed, salt, index, length, ids, scale):
    drawn = numbers(seed, salt, index, length, ids, scale)
    tokens = as_tokens(drawn)
    assert len(tokens) == length
    assert min(tokens) >= TOKENS[0]
    assert max(tokens) < TOKENS[1]
    assert set(as_text(drawn).split(" ")) <= set(WORDS)
    assert len(as_text(drawn).split(" ")) == length


@given(small, blocks, blocks, blocks, scales)
def test_prompts_share_exactly_what_their_first_blocks_cover(seed, shared, one, two, scale):
    first, second = [*shared, 6000, *one], [*shared, 7000, *two]
    covered = round(512 * scale * len(shared))
    length = covered + 50
    a, b = numbers(seed, 0, 1, length, first, scale), numbers(seed, 0, 2, length, second, scale)
    assert np.array_equal(a[:covered], b[:covered])
    assert not np.array_equal(a[covered:], b[covered:])


@given(small, blocks, st.integers(1, 1500), st.integers(1, 1500))
def test_a_clipped_prompt_is_a_beginning_of_the_whole_one(seed, ids, one, two):
    covered = 512 * len(ids)
    a, b = (numbers(seed, 0, 3, min(length, covered) or 1, ids) for length in (one, two))
    common = min(len(a), len(b))
    assert np.array_equal(a[:common], b[:common])


def test_contents_depend_on_seed_salt_index_and_block():
    base = {"seed": 1, "salt": 2, "index": 3, "length": 64}
    seen = [numbers(**base)]
    seen += [numbers(**{**base, name: 9}) for name in ("seed", "salt", "index")]
    seen += [numbers(**base, blocks=(3,)), numbers(**{**base, "salt": 9}, blocks=(3,))]
    assert len({values.tobytes() for values in seen}) == len(seen)
    assert np.array_equal(numbers(**base), numbers(**base))
    assert np.array_equal(numbers(**base, blocks=(3,)), numbers(**{**base, "index": 8}, blocks=(3,)))


def test_tokens_are_spread_evenly():
    tokens = np.array(as_tokens(numbers(0, 0, 0, 100_000)))
    counts, _ = np.histogram(tokens, 10, TOKENS)
    assert counts.min() > 9_000
    assert counts.max() < 11_000
