"""The matrix products against NumPy, for every format, instruction set and odd size."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.native.matrices import FORMATS, activations, packed, tensor
from twinfer import _native


def case(rows, n, k, seed, kind="F32"):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((rows, k)).astype(np.float32) * rng.uniform(0.1, 10)
    return x, tensor(rng.standard_normal((n, k)).astype(np.float32), kind)


def close(got, want, scale=1e-4):
    assert got.dtype == np.float32
    assert got.shape == want.shape
    assert np.abs(got - want).max() <= scale * max(1.0, np.abs(want).max())


@pytest.mark.parametrize("format", FORMATS)
@settings(max_examples=25)
@given(rows=st.integers(1, 20), n=st.integers(1, 150), k=st.integers(1, 200), seed=st.integers(0, 2**32 - 1))
def test_any_size(isa, format, rows, n, k, seed):
    x, source = case(rows, n, k, seed)
    layout, weights = packed(source, format)
    w = _native.unpack(layout, weights).astype(np.float64)
    close(_native.matmul(isa, layout, weights, x), activations(x, format) @ w.T)


@pytest.mark.parametrize("kind", ["Q4_0", "Q4_1", "Q4_K"])
def test_four_bit_kinds(isa, kind):
    x, source = case(5, 50, 512, 1, kind)
    layout, weights = packed(source, "int4")
    w = source.floats().astype(np.float64)
    close(_native.matmul(isa, layout, weights, x), activations(x, "int4") @ w.T)


def test_extreme_codes_do_not_saturate(isa):
    for format in ("int8", "int4"):
        source = tensor(np.repeat([[1.0], [-1.0]], 64, axis=1).astype(np.float32))
        layout, weights = packed(source, format)
        x = np.stack([np.full(64, 3.0), np.full(64, -3.0)]).astype(np.float32)
        close(_native.matmul(isa, layout, weights, x), activations(x, format) @ source.floats().T, 1e-2)


@pytest.mark.parametrize("format", FORMATS)
def test_a_row_does_not_depend_on_its_neighbours(isa, format):
    x, source = case(37, 70, 96, 3)
    layout, weights = packed(source, format)
    whole = _native.matmul(isa, layout, weights, x)
    for rows in (1, 2, 3, 4, 5, 7, 8, 13, 37):
        for start in range(0, 37 - rows + 1, rows):
            part = _native.matmul(isa, layout, weights, x[start : start + rows])
            assert np.array_equal(part, whole[start : start + rows])


@pytest.mark.parametrize("format", FORMATS)
def test_add_and_swiglu(isa, format):
    x, source = case(9, 64, 80, 5)
    layout, weights = packed(source, format)
    plain = _native.matmul(isa, layout, weights, x)
    assert np.array_equal(_native.matmul(isa, layout, weights, x, "add"), 1 + plain)
    tiles = plain.reshape(9, 2, 2, 16).astype(np.float64)
    gate, up = tiles[:, :, 0].reshape(9, 32), tiles[:, :, 1].reshape(9, 32)
    close(_native.matmul(isa, layout, weights, x, "swiglu"), gate / (1 + np.exp(-gate)) * up, 1e-6)


def test_zero_and_tiny_rows(isa):
    _, source = case(1, 20, 64, 7)
    for format in FORMATS:
        layout, weights = packed(source, format)
        x = np.stack([np.zeros(64), np.full(64, 1e-38)]).astype(np.float32)
        got = _native.matmul(isa, layout, weights, x)
        assert np.isfinite(got).all()
        assert (got[0] == 0).all()


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("loud", [0, 1, 2])
def test_a_group_does_not_depend_on_louder_ones(isa, format, loud):
    x, source = case(7, 40, 192, 9)
    weights = source.floats().copy()
    at = slice(64 * loud, 64 * loud + 64)
    x[:, at] *= 1e9
    weights[:, at] = 0
    layout, weights = packed(tensor(weights), format)
    w = _native.unpack(layout, weights).astype(np.float64)
    close(_native.matmul(isa, layout, weights, x), activations(x, format) @ w.T)


def test_bad_arguments_are_value_errors(isa):
    x, source = case(2, 20, 64, 8)
    layout, weights = packed(source, "int8")
    for broken in ({"k": 4096}, {"n": 10**6}, {"format": "int3"}, {"data": 1}, {"data": -64}, {"wide": "no"}):
        with pytest.raises(ValueError, match=r"^[^\n]+$"):
            _native.matmul(isa, layout | broken, weights, x)
    with pytest.raises(ValueError, match="float32"):
        _native.matmul(isa, layout, weights, x.astype(np.float64))
    with pytest.raises(ValueError, match="contiguous"):
        _native.matmul(isa, layout, weights, np.asfortranarray(x))
    with pytest.raises(ValueError, match="instruction set"):
        _native.matmul("sse9", layout, weights, x)
