"""Paged attention against the NumPy reference, for odd sizes, both element types and dirty pages."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.native.matrices import aligned, bf16
from twinfer import _native
from twinfer.kv.layout import KV_DTYPES, Layout
from twinfer.model import reference

PAGE = 16


def case(tokens, heads, kv_heads, dim, seed):
    rng = np.random.default_rng(seed)
    shape = (tokens, kv_heads, dim)
    q = rng.standard_normal((tokens, heads, dim)).astype(np.float32) * 2
    return q, rng.standard_normal(shape).astype(np.float32), rng.standard_normal(shape).astype(np.float32)


def filled(isa, k, v, kv_dtype, seed=0):
    """A pool full of NaNs but for k and v, and the page table, in random order."""
    tokens, kv_heads, dim = k.shape
    count = -(-tokens // PAGE)
    page = Layout(1, kv_heads, dim, kv_dtype).page_bytes
    pool = aligned((count + 2) * page)
    pool[:] = 0xFF
    pages = np.random.default_rng(seed).permutation(count + 2)[:count].astype(np.int32)
    _native.write_kv(isa, k, v, pool, pages, 0, kv_dtype)
    return pool, pages


def held(x, kv_dtype):
    """What a type makes of vectors [..., D]."""
    if kv_dtype == "int8":
        scale = np.abs(x).max(axis=-1, keepdims=True) / np.float32(127)
        return np.rint(x / scale) * scale
    return bf16(x) if kv_dtype == "bf16" else x


@pytest.mark.parametrize("kv_dtype", KV_DTYPES)
@settings(max_examples=25)
@given(
    tokens=st.integers(1, 300),
    new=st.integers(1, 300),
    kv_heads=st.integers(1, 3),
    group=st.integers(1, 5),
    half=st.integers(16, 128),
    tile=st.integers(1, 8),
    seed=st.integers(0, 2**32 - 1),
)
def test_any_size(isa, kv_dtype, tokens, new, kv_heads, group, half, tile, seed):
    q, k, v = case(tokens, kv_heads * group, kv_heads, 2 * half, seed)
    start = max(0, tokens - new)
    pool, pages = filled(isa, k, v, kv_dtype)
    got = _native.attention(isa, q[start:], pool, pages, start, kv_heads, tile, kv_dtype)
    k, v = held(k, kv_dtype), held(v, kv_dtype)
    want = reference.attention(q[start:].astype(np.float64), k.astype(np.float64), v.astype(np.float64))
    assert np.abs(got - want).max() <= {"f32": 2e-5, "bf16": 0.05, "int8": 0.05}[kv_dtype]


@pytest.mark.parametrize("kv_dtype", KV_DTYPES)
@pytest.mark.parametrize("heads", [(9, 3), (4, 4), (5, 1)])
def test_tiles_and_chunks_do_not_matter(isa, kv_dtype, heads):
    q, k, v = case(300, *heads, 64, 11)
    pool, pages = filled(isa, k, v, kv_dtype)
    whole = _native.attention(isa, q, pool, pages, 0, heads[1], 1, kv_dtype)
    for tile in (2, 3, 7, 9):
        assert np.array_equal(_native.attention(isa, q, pool, pages, 0, heads[1], tile, kv_dtype), whole)
    for part in (1, 2, 5):
        assert np.array_equal(_native.attention(isa, q, pool, pages, 0, heads[1], 3, kv_dtype, part), whole)
    for start in (1, 17, 127, 128, 250, 299):
        part = _native.attention(isa, q[start:], pool, pages, start, heads[1], 4, kv_dtype)
        assert np.array_equal(part, whole[start:])


def test_many_heads_to_one_kv_head(isa):
    q, k, v = case(20, 100, 1, 32, 12)
    pool, pages = filled(isa, k, v, "f32")
    got = _native.attention(isa, q, pool, pages, 0, 1, 1, "f32")
    assert np.abs(got - reference.attention(q, k, v)).max() < 1e-4


@pytest.mark.parametrize("kv_dtype", KV_DTYPES)
def test_errors_of_8_bits_are_small_on_average(isa, kv_dtype):
    q, k, v = case(400, 3, 1, 64, 15)
    pool, pages = filled(isa, k, v, kv_dtype)
    got = _native.attention(isa, q, pool, pages, 0, 1, 4, kv_dtype)
    want = reference.attention(q, k, v)
    assert np.sqrt(np.mean((got - want) ** 2) / np.mean(want**2)) < 0.015


@pytest.mark.parametrize("kv_dtype", KV_DTYPES)
def test_scores_of_any_size_stay_finite(isa, kv_dtype):
    q, k, v = case(40, 2, 1, 64, 13)
    pool, pages = filled(isa, k * 1000, v, kv_dtype)
    got = _native.attention(isa, q * 1000, pool, pages, 0, 1, 4, kv_dtype)
    assert np.isfinite(got).all()


def test_pages_are_checked(isa):
    q, k, v = case(20, 2, 1, 32, 14)
    pool, pages = filled(isa, k, v, "bf16")
    with pytest.raises(ValueError, match="page"):
        _native.attention(isa, q, pool, pages[:1], 0, 1, 4, "bf16")
    with pytest.raises(ValueError, match="page"):
        _native.attention(isa, q, pool, pages + 100, 0, 1, 4, "bf16")
