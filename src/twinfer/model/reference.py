"""The decoder in plain NumPy over float32 weights: the oracle that every native kernel is held against.

It knows the arithmetic of a Llama-family decoder and nothing of pages, batches or packed weights, and it
is written to be read, not to be fast. Shapes: T tokens, H hidden, A query heads, B key/value heads,
D head size, F feed-forward size, V vocabulary.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from twinfer.model.checkpoint import Checkpoint
    from twinfer.model.description import Description

Floats = NDArray[np.floating[Any]]


class Layer(msgspec.Struct):
    """One layer's weights; matrices are [outputs, inputs]."""

    attn_norm: Floats
    q: Floats
    k: Floats
    v: Floats
    o: Floats
    ffn_norm: Floats
    gate: Floats
    up: Floats
    down: Floats


class Reference(msgspec.Struct):
    """A whole model in float32."""

    description: Description
    embedding: Floats
    layers: list[Layer]
    norm: Floats
    output: Floats


def reference(checkpoint: Checkpoint) -> Reference:
    """The checkpoint's weights, dequantised exactly."""

    def matrix(name: str) -> Floats:
        return checkpoint.tensors[name].floats()

    def vector(name: str) -> Floats:
        return matrix(name).reshape(-1)

    layers = [
        Layer(
            attn_norm=vector(f"blk.{i}.attn_norm.weight"),
            q=matrix(f"blk.{i}.attn_q.weight"),
            k=matrix(f"blk.{i}.attn_k.weight"),
            v=matrix(f"blk.{i}.attn_v.weight"),
            o=matrix(f"blk.{i}.attn_output.weight"),
            ffn_norm=vector(f"blk.{i}.ffn_norm.weight"),
            gate=matrix(f"blk.{i}.ffn_gate.weight"),
            up=matrix(f"blk.{i}.ffn_up.weight"),
            down=matrix(f"blk.{i}.ffn_down.weight"),
        )
        for i in range(checkpoint.description.layers)
    ]
    embedding = matrix("token_embd.weight")
    output = embedding if checkpoint.description.tied else matrix("output.weight")
    return Reference(checkpoint.description, embedding, layers, vector("output_norm.weight"), output)


def logits(model: Reference, tokens: NDArray[np.int32]) -> Floats:
    """Logits [T, V] of every position of one sequence that starts at position 0."""
    d = model.description
    positions = np.arange(len(tokens))
    x = model.embedding[tokens]  # [T, H]
    for layer in model.layers:
        h = rms_norm(x, layer.attn_norm, d.rms_eps)
        q = rope((h @ layer.q.T).reshape(len(tokens), d.heads, d.head_dim), positions, d.inv_freq)
        k = rope((h @ layer.k.T).reshape(len(tokens), d.kv_heads, d.head_dim), positions, d.inv_freq)
        v = (h @ layer.v.T).reshape(len(tokens), d.kv_heads, d.head_dim)
        x = x + attention(q, k, v).reshape(len(tokens), -1) @ layer.o.T
        h = rms_norm(x, layer.ffn_norm, d.rms_eps)
        x = x + swiglu(h @ layer.gate.T, h @ layer.up.T) @ layer.down.T
    return rms_norm(x, model.norm, d.rms_eps) @ model.output.T


def rms_norm(x: Floats, weight: Floats, eps: float) -> Floats:
    """x / root-mean-square(x) * weight, over the last axis."""
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + np.float32(eps)) * weight


def swiglu(gate: Floats, up: Floats) -> Floats:
    """silu(gate) * up."""
    return gate / (1 + np.exp(-gate)) * up


def rope(x: Floats, positions: NDArray[np.int64], inv_freq: tuple[float, ...]) -> Floats:
    """Rotates the pairs (2i, 2i+1) of x [T, heads, D] by position * inv_freq[i]."""
    angle = positions[:, None].astype(np.float32) * np.asarray(inv_freq, np.float32)  # [T, D/2]
    cos, sin = np.cos(angle)[:, None, :], np.sin(angle)[:, None, :]
    a, b = x[..., 0::2], x[..., 1::2]
    out = np.empty_like(x)
    out[..., 0::2] = a * cos - b * sin
    out[..., 1::2] = a * sin + b * cos
    return out


def attention(q: Floats, k: Floats, v: Floats) -> Floats:
    """Causal attention: q [T, A, D] over k, v [P, B, D]; the T queries are the last of the P positions."""
    group = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, group, axis=1), np.repeat(v, group, axis=1)
    scores = np.einsum("tad,pad->atp", q, k) / np.float32(np.sqrt(q.shape[2]))
    position = np.arange(len(k))
    query = position[len(k) - len(q) :]
    scores = np.where(position[None, None, :] <= query[None, :, None], scores, -np.inf)
    p = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.einsum("atp,pad->tad", p / p.sum(axis=-1, keepdims=True), v).astype(np.float32)
