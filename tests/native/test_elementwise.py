"""Norm and rotations against the NumPy reference."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twinfer import _native
from twinfer.model import reference


@settings(max_examples=30)
@given(rows=st.integers(1, 4), n=st.integers(1, 200), seed=st.integers(0, 2**32 - 1))
def test_rms_norm(isa, rows, n, seed):
    rng = np.random.default_rng(seed)
    x, weight = rng.standard_normal((rows, n)).astype(np.float32), rng.standard_normal(n).astype(np.float32)
    want = reference.rms_norm(x.astype(np.float64), weight.astype(np.float64), 1e-5)
    assert np.abs(_native.rms_norm(isa, x, weight, 1e-5) - want).max() <= 2e-6 * max(1, np.abs(want).max())


@settings(max_examples=30)
@given(heads=st.integers(1, 5), half=st.integers(1, 70), seed=st.integers(0, 2**32 - 1))
def test_rope(isa, heads, half, seed):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((7, heads, 2 * half)).astype(np.float32)
    inv_freq = tuple(float(f) for f in rng.uniform(0, 1, half))
    positions = np.arange(7) + 1000
    angle = positions[:, None].astype(np.float32) * np.asarray(inv_freq, np.float32)
    got = _native.rope(isa, x, np.cos(angle), np.sin(angle))
    assert np.abs(got - reference.rope(x, positions, inv_freq)).max() < 1e-5


def hadamard(size):
    return np.ones((1, 1)) if size == 1 else np.kron([[1, 1], [1, -1]], hadamard(size // 2))


@settings(max_examples=30)
@given(heads=st.integers(1, 5), half=st.integers(1, 130), seed=st.integers(0, 2**32 - 1))
def test_spread(isa, heads, half, seed):
    x = np.random.default_rng(seed).standard_normal((heads, 2 * half)).astype(np.float32)
    size = min(64, 2 * half & -2 * half)
    want = x.reshape(heads, -1, size) @ hadamard(size) / np.sqrt(size)
    assert np.abs(_native.spread(isa, x).reshape(want.shape) - want).max() < 1e-5


@pytest.mark.parametrize("size", [32, 64, 96, 128])
def test_spread_leaves_no_element_outstanding(isa, size):
    x = np.random.default_rng(size).standard_normal((3, size)).astype(np.float32)
    x[:, 7] = 100
    assert np.abs(_native.spread(isa, x)).max() < 25
