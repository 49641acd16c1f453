"""How one weight matrix is turned into what the kernels read: codes, scales, and tiles of 16 outputs.

A matrix is [N, K]: N outputs, K inputs. All formats are tiled alike: a row is a run of 4-byte units (a float,
a pair of bf16, four 8-bit codes, eight 4-bit codes), and a tile holds unit after unit of 16 rows side by
side. K is padded to groups of 64, two blocks of 32, with weights of zero, N to 16.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from twinfer.model.checkpoint import Tensor

BLOCK = 32
GROUP = 2 * BLOCK
TILE = 16
MOST_STEPS = 32767
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
        return _whole_groups(_q8_0(tensor) if tensor.kind == "Q8_0" else quantise_8(tensor.floats()))
    exact = {"Q4_0": _q4_0, "Q4_1": _q4_1, "Q4_K": _q4_k}
    return _whole_groups(exact[tensor.kind](tensor) if tensor.kind in exact else quantise_4(tensor.floats()))


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


def tile_scales(scales: Scales, wide: bool) -> list[NDArray[np.generic]]:
    """[N, blocks, 1 or 2] as the kernels read it, one array after the other.

    [tiles, blocks, 1 or 2, 16] float32 if wide, float16 for 8-bit codes. For 4-bit codes steps int16
    [tiles, groups, 2, 16, 2] and units float32 [tiles, 16].
    """
    if wide:
        return [_tiles(scales.astype(np.float32, copy=False)).transpose(0, 2, 3, 1)]
    if scales.shape[2] == 1:
        return [_tiles(scales.astype(np.float16, copy=False)).transpose(0, 2, 3, 1)]
    steps, units = _steps(scales)
    pairs = _tiles(steps).reshape(-1, TILE, steps.shape[1] // 2, 2, 2)
    return [pairs.transpose(0, 2, 4, 1, 3), _tiles(units)]


def scale_bytes(format: str, wide: bool, n: int, k: int) -> int:
    """Bytes of what `tile_scales` gives for a matrix of padded size."""
    if format not in ("int8", "int4"):
        return 0
    each = 4 if wide else 2
    return n * (k // BLOCK) * each if format == "int8" else n * (k // BLOCK * 2 * each + (0 if wide else 4))


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


def _steps(scales: Scales) -> tuple[NDArray[np.int16], NDArray[np.float32]]:
    """Scales and minima [N, blocks, 2] as whole steps int16 of a unit float32 [N] for each row.

    w = unit * (steps[0] * (code - 8) + steps[1]). Units are powers of two, so steps are exact unless a row's
    scales differ by more than some 2^4; they are rounded to 2^-15 of the largest then. A weight has at most
    8 * MOST_STEPS steps, so that 64 of them times 127 add up within 32 bits.
    """
    wide = scales.astype(np.float64)
    centred = np.stack([wide[:, :, 0], wide[:, :, 1] + 8 * wide[:, :, 0]], axis=2)
    size = np.abs(centred)
    most = np.maximum(size.max(axis=(1, 2)), (8 * size[:, :, 0] + size[:, :, 1]).max(axis=1) / 8)
    usable = np.isfinite(most) & (most > 0)
    units = np.exp2(np.ceil(np.log2(np.where(usable, most, 1.0) / MOST_STEPS)))
    steps = np.rint(np.where(usable[:, None, None], centred, 0) / units[:, None, None])
    return steps.astype(np.int16), np.where(np.isfinite(most), units, np.nan).astype(np.float32)


def _whole_groups(codes: Codes) -> Codes:
    """With a block of zero weights at the end where there is an odd number of blocks."""
    scales = codes.scales
    if scales is None or scales.shape[1] % 2 == 0:
        return codes
    block = codes.units.shape[1] // scales.shape[1]
    return Codes(np.pad(codes.units, ((0, 0), (0, block))), np.pad(scales, ((0, 0), (0, 1), (0, 0))))


def _nibbles(codes: NDArray[np.uint8]) -> Units:
    """4-bit codes [N, blocks, 32] to units."""
    both = codes[:, :, :16] | (codes[:, :, 16:] << 4)
    return np.ascontiguousarray(both).reshape(len(codes), -1).view(np.uint32)


def _inverse(scales: NDArray[np.float16]) -> NDArray[np.float32]:
    wide = scales.astype(np.float32)  # 0 for an all-zero group, whose codes do not matter
    return np.divide(1, wide, out=np.zeros_like(wide), where=wide > 0)


def _padded(x: NDArray[np.float32]) -> NDArray[np.float32]:
    rest = -x.shape[1] % GROUP
    return np.ascontiguousarray(np.pad(x, ((0, 0), (0, rest))) if rest else x)


def _groups(x: NDArray[np.float32]) -> NDArray[np.float32]:
    return _padded(x).reshape(len(x), -1, BLOCK)


def _tiles(x: NDArray[Element]) -> NDArray[Element]:
    rest = -len(x) % TILE
    if rest:
        x = np.pad(x, [(0, rest)] + [(0, 0)] * (x.ndim - 1))
    return x.reshape(-1, TILE, *x.shape[1:])
