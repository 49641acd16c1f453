"""Packing keeps what the file says, or comes close where it must quantise."""

import numpy as np
import pytest

from tests.native.matrices import aligned, packed, tensor
from tests.tiny import write_gguf
from twinfer import _native
from twinfer.errors import ConfigError
from twinfer.model.load import load
from twinfer.model.pack import pack, resolve_precision


def unpacked(source, format):
    return _native.unpack(*packed(source, format))


def values(n, k):
    return np.random.default_rng(n * k).standard_normal((n, k)).astype(np.float32)


@pytest.mark.parametrize(
    ("kind", "format"),
    [("Q8_0", "int8"), ("Q4_0", "int4"), ("Q4_1", "int4"), ("BF16", "bf16"), ("F32", "f32")],
)
def test_exact(kind, format):
    source = tensor(values(37, 96), kind)
    assert np.array_equal(unpacked(source, format), source.floats())


def test_q4_k_is_exact():
    source = tensor(values(19, 512), "Q4_K")
    want = source.floats()
    assert np.abs(unpacked(source, "int4") - want).max() <= 1e-6 * np.abs(want).max()


@pytest.mark.parametrize(("format", "steps"), [("int8", 254), ("int4", 15)])
@pytest.mark.parametrize("shape", [(5, 33), (16, 64), (1, 1)])
def test_quantised_to_half_a_step(format, steps, shape):
    source = tensor(values(*shape))
    error = np.abs(unpacked(source, format) - source.floats()).max()
    assert error <= 0.55 * 2 * np.abs(source.floats()).max() / steps


def test_zeros_stay_zero():
    for format in ("int8", "int4"):
        assert (unpacked(tensor(np.zeros((3, 40), np.float32)), format) == 0).all()


def test_formats_by_precision(tmp_path):
    checkpoint = load(write_gguf(tmp_path / "m.gguf", "Q4_1"))
    assert resolve_precision(checkpoint, "auto") == "int4"
    layout = pack(checkpoint, "auto").layout
    assert {m["format"] for m in layout["layers"][0]["qkv"]} == {"int4"}
    assert len(layout["layers"][0]["qkv"]) == 1
    assert layout["output"] == layout["embedding"]
    plain = load(write_gguf(tmp_path / "f.gguf", "F32"))
    assert resolve_precision(plain, "auto") == "int8"
    assert pack(plain, "int4").layout["layers"][0]["down"]["format"] == "int4"
    assert pack(plain, "int4").layout["embedding"]["format"] == "int8"
    with pytest.raises(ConfigError, match="fp8"):
        pack(plain, "fp8")


def test_write_fills_exactly_the_plan(tmp_path):
    plan = pack(load(write_gguf(tmp_path / "m.gguf", "Q8_0")), "int8")
    assert plan.layout["nbytes"] == plan.nbytes
    buffer = aligned(plan.nbytes + 64)
    buffer[plan.nbytes :] = 7
    plan.write(memoryview(buffer))
    assert (buffer[plan.nbytes :] == 7).all()
    assert buffer[: plan.nbytes].any()
