"""The least time that a machine needs for a step's work: a roofline.

A step multiplies, attends and reads memory. Arithmetic takes at least its operations over the peak of the
units that do them, reading at least its bytes over the bandwidth. The two overlap, so the longer one is the
bound, and says whether arithmetic or memory limits the step. Operations count a product and its addition
as two.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from twinfer.bench.shapes import Prompts
from twinfer.kv.layout import Layout
from twinfer.model.description import Description

Regime = Literal["arithmetic", "memory"]


class Ceiling(msgspec.Struct, frozen=True):
    """What some cores can do at most: billions of operations a second by unit, and of bytes read."""

    int8_gops: float
    bf16_gflops: float
    f32_gflops: float
    read_gb_s: float

    def peak(self, kind: str) -> float:
        """Operations a second with weights of a precision, or with KV of a type."""
        peaks = {"f32": self.f32_gflops, "bf16": self.bf16_gflops}
        return 1e9 * peaks.get(kind, self.int8_gops)


class Phase(msgspec.Struct, frozen=True):
    """What decides the work of a phase: the model, its weights' precision and bytes, and KV of a token."""

    model: Description
    precision: str
    weight_bytes: int
    kv: Layout


class Work(msgspec.Struct, frozen=True):
    """Operations of the matrix products and of attention, and bytes read and written."""

    products: float
    attention: float
    traffic: float


class Bound(msgspec.Struct, frozen=True):
    """The least seconds, and what sets them."""

    seconds: float
    regime: Regime


def prefill_work(phase: Phase, prompts: Prompts, chunk: int) -> Work:
    """All prompts, in steps of `chunk` tokens; each prompt ends with one row of logits."""
    steps = -(-prompts.tokens // chunk)
    pairs = prompts.count * prompts.length * (prompts.length + 1) / 2
    return Work(
        products=prompts.tokens * layer_ops(phase.model) + prompts.count * output_ops(phase.model),
        attention=pairs * pair_ops(phase.model),
        traffic=steps * phase.weight_bytes + prompts.tokens * phase.kv.token_bytes,
    )


def decode_work(phase: Phase, batch: int, context: int) -> Work:
    """One step of `batch` sequences that have `context` tokens of KV each."""
    return Work(
        products=batch * (layer_ops(phase.model) + output_ops(phase.model)),
        attention=batch * (context + 1) * pair_ops(phase.model),
        traffic=phase.weight_bytes + batch * (context + 1) * phase.kv.token_bytes,
    )


def bound(work: Work, ceiling: Ceiling, phase: Phase) -> Bound:
    """The bound of a phase's work."""
    arithmetic = work.products / ceiling.peak(phase.precision) + work.attention / ceiling.peak(phase.kv.dtype)
    memory = work.traffic / (1e9 * ceiling.read_gb_s)
    return Bound(arithmetic, "arithmetic") if arithmetic >= memory else Bound(memory, "memory")


def layer_ops(model: Description) -> int:
    """Operations of the layers' matrices for one token."""
    attention = 2 * model.head_dim * (model.heads + model.kv_heads)
    return 2 * model.layers * model.hidden * (attention + 3 * model.ffn)


def output_ops(model: Description) -> int:
    """Operations of the output matrix for one token."""
    return 2 * model.vocab * model.hidden


def pair_ops(model: Description) -> int:
    """Operations of attention for one token and one position it attends to: scores and weighted values."""
    return 4 * model.layers * model.heads * model.head_dim


def weight_bytes(layout: dict[str, Any]) -> int:
    """Packed bytes that a step reads: everything but an embedding that is not the output matrix too."""
    nbytes: int = layout["nbytes"]
    embedding, output = (_starts(layout[name]) for name in ("embedding", "output"))
    if embedding == output:
        return nbytes
    # An array ends where the next one begins; an empty one begins where the next one does.
    others = output | {layout["norm"], nbytes}
    ends = {start: min(end for end in embedding | others if end > start) for start in embedding - others}
    return nbytes - sum(end - start for start, end in ends.items())


def _starts(matrix: dict[str, Any]) -> set[int]:
    return {matrix["data"], matrix["scales"]}
