"""Packed matrices for the kernel tests, and what their arithmetic comes to in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
from gguf import GGMLQuantizationType
from gguf.quants import quantize
from numpy.typing import NDArray

from twinfer.model import pack_matrix
from twinfer.model.checkpoint import Tensor

Floats = NDArray[np.float32]
FORMATS = ("f32", "bf16", "int8", "int4")


def tensor(values: Floats, kind: str = "F32") -> Tensor:
    """`values` [N, K] as a file would hold them; Q4_K gets random blocks of that shape instead."""
    if kind == "F32":
        data = np.ascontiguousarray(values).view(np.uint8)
    elif kind == "Q4_K":
        rng = np.random.default_rng(values.size)
        data = rng.integers(0, 256, (len(values), values.shape[1] // 256, 144), dtype=np.uint8)
        data[:, :, :4] = rng.uniform(0, 0.01, (*data.shape[:2], 2)).astype(np.float16).view(np.uint8)
        data = data.reshape(len(values), -1)
    else:
        data = quantize(values, GGMLQuantizationType[kind])
    return Tensor(name="test", kind=kind, shape=(values.shape[0], values.shape[1]), data=data)


def packed(source: Tensor, format: str) -> tuple[dict[str, Any], NDArray[np.uint8]]:
    """The layout entry and the bytes of one matrix."""
    codes = pack_matrix.encode(source, format)
    wide = pack_matrix.is_wide([source.kind], format)
    pieces = [pack_matrix.tile_units(codes.units)]
    if codes.scales is not None:
        pieces += pack_matrix.tile_scales(codes.scales, wide)
    raw = [np.ascontiguousarray(piece).reshape(-1).view(np.uint8) for piece in pieces]
    buffer = aligned(sum(piece.nbytes for piece in raw))
    buffer[:] = np.concatenate(raw)
    n, k = source.shape
    return {"format": format, "wide": wide, "n": n, "k": k, "data": 0, "scales": raw[0].nbytes}, buffer


def aligned(nbytes: int) -> NDArray[np.uint8]:
    """Zeroed bytes that start at a cache line."""
    raw = np.zeros(nbytes + 64, np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + nbytes]


def activations(x: Floats, format: str) -> NDArray[np.float64]:
    """What a format makes of activations [M, K]: bf16, or 8-bit codes with a scale per group of 64."""
    if format == "f32":
        return x.astype(np.float64)
    if format == "bf16":
        return bf16(x).astype(np.float64)
    groups = np.pad(x, ((0, 0), (0, -x.shape[1] % 64))).reshape(len(x), -1, 64)
    most = np.maximum(np.abs(groups).max(axis=2, keepdims=True), np.float32(1e-20))
    inverse = np.float32(127) / most
    codes = np.rint(groups * inverse).astype(np.float64)
    return (codes * (most / np.float32(127))).reshape(len(x), -1)[:, : x.shape[1]]


def bf16(x: Floats) -> Floats:
    """The nearest bf16, as float32."""
    return (pack_matrix.to_bf16(x).astype(np.uint32) << 16).view(np.float32)
