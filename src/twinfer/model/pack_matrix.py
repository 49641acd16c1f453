"""How one weight matrix is turned into what the kernels read: codes, scales, and tiles of 16 outputs.

A matrix is [N, K]: N outputs, K inputs. All formats are tiled alike: a row is a run of 4-byte units (a float,
a pair of bf16, four 8-bit codes, eight 4-bit codes), and a tile holds unit after unit of 16 rows side by
side. K is padded to blocks of 32 with weights of zero, N to 16.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from twinfer.model.checkpoint import Tensor

BLOCK = 32
TILE = 16
FOUR_BIT_KINDS = frozenset({"Q4_0", "Q4_1", "Q4_K"})

Element = TypeVar("Element", bound=np.generic)
Units = NDArray[np.uint32]
Scales = NDArray[np.float32 | np.float16]


class Codes(msgspec.Struct):
    """A matrix's rows before tiling: units uint32 [N, units], scales [N, blocks, 1 or 2] or None.

    8-bit codes are value + 128, w = scale * value. 4-bit codes have a scale and a minimum,
    w = scale * code + minimum; byte i of a block's 16 holds elements i (low) and 16 + i (high).
    """

    units: Units
    scales: Scales | None = None


def encode(tensor: Tensor, format: str) -> Codes:
    """The tensor's rows in a format: exactly, where the format can hold what the file says."""
    if format == "f32":
        return Codes(_padded(tensor.floats()).view(np.uint32))
    if format == "bf16":
        return Codes(to_bf16(_padded(tensor.floats())).view(np.uint32))
    if format == "int8":
        return _q8_0(tensor) if tensor.kind == "Q8_0" else quantise_8(tensor.floats())
    exact = {"Q4_0": _q4_0, "Q4_1": _q4_1, "Q4_K": _q4_k}
    return exact[tensor.kind](tensor) if tensor.kind in exact else quantise_4(tensor.floats())


def is_wide(kinds: Sequence[str], format: str) -> bool:
    """Whether scales must be float32: Q4_K's are products that float16 cannot hold."""
    return format == "int4" and "Q4_K" in kinds


def joined(parts: Sequence[Codes]) -> Codes:
    """Matrices with the same K, one under the other."""
    scales = [part.scales for part in parts if part.scales is not None]
    return Codes(np.concatenate([part.units for part in parts]), np.concatenate(scales) if scales else None)


def tile_units(units: Units) -> Units:
    """[N, units] to [tiles, units, 16]."""
    return _tiles(units).transpose(0, 2, 1)


def tile_scales(scales: Scales, wide: bool) -> Scales:
    """[N, blocks, s] to [tiles, blocks, s, 16], float32 if wide, float16 otherwise."""
    if wide:
        return _tiles(scales.astype(np.float32, copy=False)).transpose(0, 2, 3, 1)
    return _tiles(scales.astype(np.float16, copy=False)).transpose(0, 2, 3, 1)


def to_bf16(x: NDArray[np.float32]) -> NDArray[np.uint16]:
    """The nearest bf16, ties to even, as bits."""
    bits = np.ascontiguousarray(x).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def quantise_8(x: NDArray[np.float32]) -> Codes:
    """Groups of 32 with one float16 scale each, value = round(w / scale) within ±127."""
    groups = _groups(x)
    scales = (np.abs(groups).max(axis=2, keepdims=True) / 127).astype(np.float16)
    values = np.rint(groups * _inverse(scales)).clip(-127, 127)
    codes = (values + 128).astype(np.uint8).reshape(len(x), -1)
    return Codes(codes.view(np.uint32), scales)


def quantise_4(x: NDArray[np.float32]) -> Codes:
    """Groups of 32 with a float16 scale and minimum each, code = round((w - minimum) / scale) in 0..15."""
    groups = _groups(x)
    low = groups.min(axis=2, keepdims=True)
    scales = ((groups.max(axis=2, keepdims=True) - low) / 15).astype(np.float16)
    minima = low.astype(np.float16)
    codes = np.rint((groups - minima.astype(np.float32)) * _inverse(scales)).clip(0, 15).astype(np.uint8)
    return Codes(_nibbles(codes), np.concatenate([scales, minima], axis=2))


def _q8_0(tensor: Tensor) -> Codes:
    blocks = tensor.data.reshape(tensor.shape[0], -1, 34)
    codes = np.ascontiguousarray(blocks[:, :, 2:]) ^ np.uint8(128)
    scales = np.ascontiguousarray(blocks[:, :, :2]).view(np.float16)
    return Codes(codes.reshape(tensor.shape[0], -1).view(np.uint32), scales)


def _q4_1(tensor: Tensor) -> Codes:
    blocks = tensor.data.reshape(tensor.shape[0], -1, 20)
    units = np.ascontiguousarray(blocks[:, :, 4:]).reshape(tensor.shape[0], -1).view(np.uint32)
    return Codes(units, np.ascontiguousarray(blocks[:, :, :4]).view(np.float16))


def _q4_0(tensor: Tensor) -> Codes:
    blocks = tensor.data.reshape(tensor.shape[0], -1, 18)
    units = np.ascontiguousarray(blocks[:, :, 2:]).reshape(tensor.shape[0], -1).view(np.uint32)
    scales = np.ascontiguousarray(blocks[:, :, :2]).view(np.float16)
    return Codes(units, np.concatenate([scales, scales * np.float16(-8)], axis=2))


def _q4_k(tensor: Tensor) -> Codes:
    rows = tensor.shape[0]
    blocks = tensor.data.reshape(rows, -1, 144)  # d, dmin (float16), 12 bytes of 6-bit scales, 128 of codes
    d = np.ascontiguousarray(blocks[:, :, 0:4]).view(np.float16).astype(np.float32)
    packed = blocks[:, :, 4:16].reshape(rows, -1, 3, 4)
    low, high, rest = packed[:, :, 0], packed[:, :, 1], packed[:, :, 2]
    scale = np.concatenate([low & 63, (rest & 15) | ((low >> 2) & 0x30)], axis=2)  # 8 groups of 32
    minimum = np.concatenate([high & 63, (rest >> 4) | ((high >> 2) & 0x30)], axis=2)
    scales = np.stack([d[:, :, :1] * scale, -d[:, :, 1:] * minimum], axis=3).astype(np.float32)
    pairs = blocks[:, :, 16:].reshape(rows, -1, 4, 32)  # low nibbles are one group, high nibbles the next
    codes = np.stack([pairs & 15, pairs >> 4], axis=3).reshape(rows, -1, BLOCK)
    return Codes(_nibbles(codes.astype(np.uint8)), scales.reshape(rows, -1, 2))


def _nibbles(codes: NDArray[np.uint8]) -> Units:
    """4-bit codes [N, blocks, 32] to units."""
    both = codes[:, :, :16] | (codes[:, :, 16:] << 4)
    return np.ascontiguousarray(both).reshape(len(codes), -1).view(np.uint32)


def _inverse(scales: NDArray[np.float16]) -> NDArray[np.float32]:
    wide = scales.astype(np.float32)  # 0 for an all-zero group, whose codes do not matter
    return np.divide(1, wide, out=np.zeros_like(wide), where=wide > 0)


def _padded(x: NDArray[np.float32]) -> NDArray[np.float32]:
    rest = -x.shape[1] % BLOCK
    return np.ascontiguousarray(np.pad(x, ((0, 0), (0, rest))) if rest else x)


def _groups(x: NDArray[np.float32]) -> NDArray[np.float32]:
    return _padded(x).reshape(len(x), -1, BLOCK)


def _tiles(x: NDArray[Element]) -> NDArray[Element]:
    rest = -len(x) % TILE
    if rest:
        x = np.pad(x, [(0, rest)] + [(0, 0)] * (x.ndim - 1))
    return x.reshape(-1, TILE, *x.shape[1:])
