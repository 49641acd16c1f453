"""The least work and time of a step: plain arithmetic."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import tiny
from twinfer.bench.roofline import (
    Ceiling,
    Phase,
    Work,
    bound,
    decode_work,
    layer_ops,
    output_ops,
    prefill_work,
    weight_bytes,
)
from twinfer.bench.shapes import Prompts
from twinfer.kv.layout import Layout
from twinfer.model.description import Description
from twinfer.model.load import load
from twinfer.model.pack import pack

CEILING = Ceiling(int8_gops=400.0, bf16_gflops=200.0, f32_gflops=100.0, read_gb_s=20.0)
MODEL = Description(
    name="SmolLM2-135M",
    layers=30,
    hidden=576,
    heads=9,
    kv_heads=3,
    head_dim=64,
    ffn=1536,
    vocab=49152,
    context_length=8192,
    rms_eps=1e-5,
    inv_freq=tuple(1e5 ** (-i / 32) for i in range(32)),
    tied=True,
)
KV = Layout(MODEL.layers, MODEL.kv_heads, MODEL.head_dim, "bf16")
PHASE = Phase(MODEL, "int4", 96_000_000, KV)


def test_operations_of_the_default_model() -> None:
    assert layer_ops(MODEL) == pytest.approx(0.2123e9, rel=1e-3)
    assert output_ops(MODEL) == pytest.approx(0.0566e9, rel=1e-3)


def test_decode_reads_weights_once_and_every_context() -> None:
    work = decode_work(PHASE, 16, 255)
    assert work.products == 16 * (layer_ops(MODEL) + output_ops(MODEL))
    assert work.traffic == 96_000_000 + 16 * 256 * 23040
    assert work.attention == 16 * 256 * 4 * 30 * 9 * 64


def test_prefill_attends_causally_and_ends_each_prompt_with_logits() -> None:
    work = prefill_work(PHASE, Prompts(3, 4), chunk=5)
    assert work.products == 12 * layer_ops(MODEL) + 3 * output_ops(MODEL)
    assert work.attention == 3 * (1 + 2 + 3 + 4) * 4 * 30 * 9 * 64
    assert work.traffic == 3 * 96_000_000 + 12 * 23040


def test_prefill_in_one_prompt_is_the_sum_of_decodes_without_their_logits() -> None:
    prefill = prefill_work(PHASE, Prompts(1, 64), chunk=64)
    assert prefill.attention == sum(decode_work(PHASE, 1, context).attention for context in range(64))


def test_the_longer_of_arithmetic_and_memory_is_the_bound() -> None:
    arithmetic = bound(Work(products=4e9, attention=2e9, traffic=1e8), CEILING, PHASE)
    assert arithmetic.regime == "arithmetic"
    assert arithmetic.seconds == pytest.approx(4e9 / 400e9 + 2e9 / 200e9)
    memory = bound(Work(products=4e9, attention=2e9, traffic=1e9), CEILING, PHASE)
    assert memory.regime == "memory"
    assert memory.seconds == pytest.approx(1 / 20)


@pytest.mark.parametrize(
    ("kind", "peak"), [("f32", 100e9), ("bf16", 200e9), ("int8", 400e9), ("int4", 400e9)]
)
def test_units_by_precision(kind: str, peak: float) -> None:
    assert CEILING.peak(kind) == peak


@pytest.mark.parametrize("precision", ["f32", "bf16", "int8", "int4"])
def test_a_separate_embedding_is_not_read(tmp_path: Path, precision: str) -> None:
    layouts = [
        pack(load(tiny.write_gguf(tmp_path / f"{tied}.gguf", "Q8_0", tied=tied)), precision).layout
        for tied in (True, False)
    ]
    tied, untied = layouts
    assert weight_bytes(tied) == tied["nbytes"]
    assert untied["nbytes"] > tied["nbytes"]
    assert weight_bytes(untied) == tied["nbytes"]
