"""Sampling: filters against a plain NumPy version, frequencies, and the random numbers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twinfer import _native


def sample(isa, logits, temperature=1.0, top_k=0, top_p=1.0, min_p=0.0, seed=0, positions=None):
    logits = np.atleast_2d(np.asarray(logits, np.float32))
    n = len(logits)
    return _native.sample(
        isa,
        logits,
        np.full(n, temperature, np.float32),
        np.full(n, top_k, np.int32),
        np.full(n, top_p, np.float32),
        np.full(n, min_p, np.float32),
        np.full(n, seed, np.uint64),
        np.arange(n, dtype=np.int32) if positions is None else positions,
    )


def allowed(logits, temperature, top_k, top_p, min_p):
    """The tokens that the filters leave, with a little room at the edges for rounding."""
    p = np.exp((logits.astype(np.float64) - logits.max()) / temperature)
    order = np.argsort(-p, kind="stable")
    if top_k:
        order = order[:top_k]
    mass = np.cumsum(p[order]) / p[order].sum()
    order = order[: int(np.searchsorted(mass, top_p - 1e-5) + 2)]
    return set(order[p[order] >= min_p * (1 - 1e-5)].tolist())


def test_greedy_takes_the_lowest_of_equals(isa):
    logits = np.zeros((3, 77), np.float32)
    logits[1, 70] = logits[1, 76] = 5
    logits[2, 76] = 1
    assert sample(isa, logits, temperature=0).tolist() == [0, 70, 76]
    assert sample(isa, logits, top_k=1).tolist() == [0, 70, 76]


@settings(max_examples=60)
@given(
    vocab=st.integers(1, 2000),
    temperature=st.floats(0.05, 5),
    top_k=st.integers(0, 60),
    top_p=st.floats(0.01, 1),
    min_p=st.floats(0, 1),
    seed=st.integers(0, 2**64 - 1),
)
def test_filters(isa, vocab, temperature, top_k, top_p, min_p, seed):
    rng = np.random.default_rng(seed % 2**32)
    logits = (rng.standard_normal((1, vocab)) * 4).astype(np.float32)
    tokens = sample(isa, np.repeat(logits, 20, axis=0), temperature, top_k, top_p, min_p, seed)
    assert set(tokens.tolist()) <= allowed(logits[0], temperature, top_k, top_p, min_p)


def test_frequencies(isa):
    p = np.array([0.5, 0.3, 0.15, 0.05])
    tokens = sample(isa, np.repeat(np.log(p)[None], 20000, axis=0), seed=5)
    assert np.abs(np.bincount(tokens, minlength=4) / 20000 - p).max() < 0.015


def test_only_seed_and_position_matter(isa):
    logits = np.random.default_rng(1).standard_normal((50, 500)).astype(np.float32)
    positions = np.arange(50, dtype=np.int32)
    whole = sample(isa, logits, seed=9)
    assert [
        sample(isa, logits[i], seed=9, positions=positions[i : i + 1])[0] for i in range(50)
    ] == whole.tolist()
    assert sample(isa, logits, seed=10).tolist() != whole.tolist()


def test_uniform_is_philox():
    # Known answers of Philox4x32-10 for counter and key of zeros and, by words, of ones.
    def words(x):
        return int(x * 2**53) >> 21, (int(x * 2**53) & (2**21 - 1)) << 11

    first, second = words(_native.uniform(0, 0))
    assert first == 0x6627E8D5
    assert second == 0xE169C58D & ~0x7FF
    numbers = np.array([_native.uniform(3, position) for position in range(4000)])
    assert numbers.min() >= 0
    assert numbers.max() < 1
    assert abs(numbers.mean() - 0.5) < 0.02


def test_lengths_are_checked(isa):
    with pytest.raises(ValueError, match="temperature"):
        _native.sample(
            isa,
            np.zeros((2, 5), np.float32),
            np.zeros(1, np.float32),
            *(np.zeros(2, t) for t in (np.int32, np.float32, np.float32, np.uint64, np.int32)),
        )
