"""Weights as read from disk, whatever the format: named tensors of raw bytes, not yet packed for a kernel.

Names are GGUF's; `expected_shapes` lists them all. Shapes are (rows, columns) in NumPy order; a vector is
one row. Bytes are usually a view of the mapped file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import msgspec
import numpy as np
import numpy.typing as npt

from twinfer.errors import ModelError
from twinfer.model.description import Description

# Elements and bytes of one block of each kind, as GGUF stores them.
KINDS: dict[str, tuple[int, int]] = {
    "F32": (1, 4),
    "F16": (1, 2),
    "BF16": (1, 2),
    "Q4_0": (32, 18),
    "Q4_1": (32, 20),
    "Q8_0": (32, 34),
    "Q4_K": (256, 144),
    "Q5_K": (256, 176),
    "Q6_K": (256, 210),
}


class Tensor(msgspec.Struct, frozen=True, eq=False):
    """One matrix or vector.

    shape  (rows, columns) in elements; a vector is (1, n)
    data   uint8 [rows, bytes per row], read-only
    """

    name: str
    kind: str
    shape: tuple[int, int]
    data: npt.NDArray[np.uint8]

    def floats(self) -> npt.NDArray[np.float32]:
        """float32 [rows, columns], exactly what the stored bytes mean; a copy, for F32 maybe a view."""
        if self.kind == "F32":
            return self.data.view("<f4")
        if self.kind == "F16":
            return self.data.view("<f2").astype(np.float32)
        if self.kind == "BF16":
            return (self.data.view("<u2").astype(np.uint32) << 16).view(np.float32)
        from gguf import GGMLQuantizationType
        from gguf.quants import dequantize

        floats = cast("npt.NDArray[np.float32]", dequantize(self.data, GGMLQuantizationType[self.kind]))
        return floats.reshape(self.shape)


class GgufTokenizer(msgspec.Struct, frozen=True):
    """What a GGUF file says of its tokeniser: its `tokenizer.*` metadata, by key."""

    metadata: Mapping[str, Any]


class FolderTokenizer(msgspec.Struct, frozen=True):
    """What a Hugging Face folder says of its tokeniser.

    tokenizer      tokenizer.json, as text
    config         tokenizer_config.json
    eos_ids        ends of generation named by generation_config.json and config.json
    bos_id         named by config.json
    chat_template  Jinja source
    """

    tokenizer: str
    config: Mapping[str, Any]
    eos_ids: tuple[int, ...]
    bos_id: int | None
    chat_template: str | None


class Checkpoint(msgspec.Struct, frozen=True, eq=False):
    """A model as it lies on disk: its description, its weights by name, and its tokeniser's source."""

    description: Description
    tensors: dict[str, Tensor]
    tokenizer_source: GgufTokenizer | FolderTokenizer
    path: Path


def expected_shapes(description: Description) -> Iterator[tuple[str, tuple[int, int]]]:
    """Every tensor name that the model must have, with its (rows, columns), in order of use."""
    d = description
    yield "token_embd.weight", (d.vocab, d.hidden)
    for i in range(d.layers):
        yield f"blk.{i}.attn_norm.weight", (1, d.hidden)
        yield f"blk.{i}.attn_q.weight", (d.heads * d.head_dim, d.hidden)
        yield f"blk.{i}.attn_k.weight", (d.kv_heads * d.head_dim, d.hidden)
        yield f"blk.{i}.attn_v.weight", (d.kv_heads * d.head_dim, d.hidden)
        yield f"blk.{i}.attn_output.weight", (d.hidden, d.heads * d.head_dim)
        yield f"blk.{i}.ffn_norm.weight", (1, d.hidden)
        yield f"blk.{i}.ffn_gate.weight", (d.ffn, d.hidden)
        yield f"blk.{i}.ffn_up.weight", (d.ffn, d.hidden)
        yield f"blk.{i}.ffn_down.weight", (d.hidden, d.ffn)
    yield "output_norm.weight", (1, d.hidden)
    if not d.tied:
        yield "output.weight", (d.vocab, d.hidden)


def check_tensors(description: Description, tensors: Mapping[str, Tensor]) -> None:
    """Check that every tensor is there with its shape, and that no other is.

    Raises:
        ModelError: a tensor is missing, has another shape, or belongs to no plain Llama.
    """
    seen = 0
    for name, shape in expected_shapes(description):
        tensor = tensors.get(name)
        if tensor is None:
            raise ModelError(f"tensor '{name}' is missing")
        if tensor.shape != shape:
            raise ModelError(f"tensor '{name}' has shape {tensor.shape}, expected {shape}")
        seen += 1
    if seen != len(tensors):
        known = {name for name, _ in expected_shapes(description)}
        raise ModelError(_unexpected(next(name for name in tensors if name not in known)))


def _unexpected(name: str) -> str:
    if name.endswith(".bias"):
        return f"tensor '{name}' is a bias; only Llama models without biases are supported"
    if "_exps" in name or "_inp" in name or "experts" in name:
        return f"tensor '{name}' belongs to a mixture of experts; only dense Llama models are supported"
    return f"tensor '{name}' is not part of a plain Llama model, the only kind supported"
