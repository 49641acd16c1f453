"""Kernels beside the machine's limits: what is divided by what, and what cannot be timed."""

import numpy as np
import pytest

from benchmarks.kernels import Row
from twinfer import _native
from twinfer._native import time_attention
from twinfer.bench.roofline import Ceiling
from twinfer.kv.layout import Layout

CEILING = Ceiling(int8_gops=300.0, bf16_gflops=100.0, f32_gflops=100.0, read_gb_s=20.0)


def test_the_bound_is_what_takes_longer():
    by_arithmetic = Row("a", seconds=2.0, operations=100e9, peak=100e9, nbytes=10e9)
    assert by_arithmetic.share(CEILING) == pytest.approx(0.5)
    assert by_arithmetic.figures(CEILING) == {"kernel": "a", "gop_s": 50.0, "gb_s": 5.0, "share": 0.5}
    by_memory = Row("b", seconds=1.0, operations=10e9, peak=100e9, nbytes=15e9)
    assert by_memory.share(CEILING) == pytest.approx(0.75)


def timed(isa="generic", kv_dtype="bf16", pages=None, **changes):
    sizes = {
        "heads": 4,
        "kv_heads": 2,
        "head_dim": 10,
        "layers": 2,
        "answers": 3,
        "context": 20,
        "queries": 2,
    }
    sizes |= changes
    kv = Layout(sizes["layers"], max(1, sizes["kv_heads"]), sizes["head_dim"], kv_dtype)
    pool = np.zeros((6 if pages is None else pages) * kv.page_bytes, np.uint8)
    return time_attention(isa, pool, kv_dtype, **sizes, repeats=2)


@pytest.mark.parametrize("isa", _native.isas())
@pytest.mark.parametrize("kv_dtype", ["f32", "bf16", "int8"])
def test_attention_of_odd_sizes_can_be_timed(isa, kv_dtype):
    assert 0 < timed(isa, kv_dtype) < 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"pages": 5}, "the pool is too small"),
        ({"answers": 0}, "the pool is too small"),
        ({"layers": 1 << 40, "pages": 0}, "the pool is too small"),
        ({"heads": 3}, "heads must be a multiple of the KV heads"),
        ({"kv_heads": 0}, "heads must be a multiple of the KV heads"),
        ({"queries": 21}, "queries must fit"),
        ({"queries": 0}, "queries must fit"),
        ({"context": 400, "queries": 25, "pages": 75}, "queries must fit"),
        ({"head_dim": 11}, "head_dim must be even"),
    ],
)
def test_what_cannot_be_timed_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        timed(**changes)
