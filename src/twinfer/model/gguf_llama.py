"""A Llama model out of a GGUF file: what its metadata mean, and what of it is not supported."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from twinfer.errors import ModelError
from twinfer.model import gguf
from twinfer.model.checkpoint import Checkpoint, GgufTokenizer, Tensor, check_tensors
from twinfer.model.description import Description, check_sizes, rope_frequencies

ROPE_FACTORS = "rope_freqs.weight"
# Metadata that change the computation, with the values that leave it a plain Llama.
NEUTRAL: dict[str, tuple[float | None, ...]] = {
    "llama.expert_count": (None, 0),
    "llama.attention.sliding_window": (None, 0),
    "llama.attention.scale": (None, 0.0),
    "llama.logit_scale": (None, 0.0, 1.0),
    "llama.embedding_scale": (None, 0.0, 1.0),
    "llama.residual_scale": (None, 0.0, 1.0),
    "llama.rope.scaling.attn_factor": (None, 0.0, 1.0),
    "split.count": (None, 0, 1),
}


def load_gguf(path: Path) -> Checkpoint:
    """Read a GGUF file; its weights stay on disk until they are used.

    Raises:
        ModelError: the file is damaged or its model is not supported.
    """
    file = gguf.read(path)
    _check_architecture(file.metadata)
    tensors = gguf.tensors(file)
    factors = tensors.pop(ROPE_FACTORS, None)
    description = _describe(file.metadata, tensors, path.stem)
    check_sizes(description)
    check_tensors(description, tensors)
    frequencies = _frequencies(file.metadata, description.head_dim, factors)
    description = msgspec.structs.replace(description, inv_freq=frequencies)
    tokenizer = {key: value for key, value in file.metadata.items() if key.startswith("tokenizer.")}
    return Checkpoint(description, tensors, GgufTokenizer(tokenizer), path)


def _check_architecture(metadata: Mapping[str, Any]) -> None:
    architecture = _required(metadata, "general.architecture")
    if architecture != "llama":
        raise ModelError(f"architecture '{architecture}' is not supported; supported: llama")
    for key, neutral in NEUTRAL.items():
        if metadata.get(key) not in neutral:
            raise ModelError(f"{key} = {metadata[key]} is not supported; supported: models without it")


def _describe(metadata: Mapping[str, Any], tensors: Mapping[str, Tensor], stem: str) -> Description:
    embedding = tensors.get("token_embd.weight")
    if embedding is None:
        raise ModelError("tensor 'token_embd.weight' is missing")
    hidden = _integer(metadata, "llama.embedding_length")
    heads = _integer(metadata, "llama.attention.head_count")
    if heads < 1:
        raise ModelError(f"llama.attention.head_count must be at least 1, not {heads}")
    name = metadata.get("general.name")
    return Description(
        name=name if isinstance(name, str) and name else stem,
        layers=_integer(metadata, "llama.block_count"),
        hidden=hidden,
        heads=heads,
        kv_heads=_integer(metadata, "llama.attention.head_count_kv", heads),
        head_dim=_head_dim(metadata, hidden // heads),
        ffn=_integer(metadata, "llama.feed_forward_length"),
        vocab=embedding.shape[0],
        context_length=_integer(metadata, "llama.context_length"),
        rms_eps=_number(metadata, "llama.attention.layer_norm_rms_epsilon"),
        inv_freq=(),
        tied="output.weight" not in tensors,
    )


def _head_dim(metadata: Mapping[str, Any], usual: int) -> int:
    head_dim = _integer(metadata, "llama.attention.key_length", usual)
    for key in ("llama.attention.value_length", "llama.rope.dimension_count"):
        size = _integer(metadata, key, head_dim)
        if size != head_dim:
            raise ModelError(f"{key} = {size} is not supported; supported: the head's size, {head_dim}")
    return head_dim


def _frequencies(metadata: Mapping[str, Any], head_dim: int, factors: Tensor | None) -> tuple[float, ...]:
    base = _number(metadata, "llama.rope.freq_base", 10000.0)
    old_factor = _number(metadata, "llama.rope.scale_linear", 1.0)
    factor = _number(metadata, "llama.rope.scaling.factor", old_factor) or 1.0
    kind = metadata.get("llama.rope.scaling.type", "linear")
    if kind not in ("none", "linear", "llama3"):
        raise ModelError(f"rope scaling '{kind}' is not supported; supported: none, linear, llama3")
    if kind == "llama3" and factors is None:
        raise ModelError(f"rope scaling 'llama3' needs tensor '{ROPE_FACTORS}', which is missing")
    # With frequency factors in the file, llama3 scaling is in them already.
    divisors = () if factors is None else tuple(factors.floats().ravel().tolist())
    return rope_frequencies(head_dim, base, factor if kind == "linear" else 1.0, divisors)


def _required(metadata: Mapping[str, Any], key: str) -> Any:
    if key not in metadata:
        raise ModelError(f"metadata '{key}' are missing")
    return metadata[key]


def _integer(metadata: Mapping[str, Any], key: str, default: int | None = None) -> int:
    value = _required(metadata, key) if default is None else metadata.get(key, default)
    if not isinstance(value, int) or isinstance(value, bool):
        raise ModelError(f"metadata '{key}' must be an integer, not {str(value)[:40]!r}")
    return value


def _number(metadata: Mapping[str, Any], key: str, default: float | None = None) -> float:
    value = _required(metadata, key) if default is None else metadata.get(key, default)
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise ModelError(f"metadata '{key}' must be a number, not {str(value)[:40]!r}")
    return float(value)
