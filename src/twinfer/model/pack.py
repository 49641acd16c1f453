"""Packing a checkpoint's weights into one buffer that engines map read-only.

It decides which format each matrix gets in a precision, and where everything lies. `Plan.layout` is plain
data that `build.py` and the native module read:

    {"precision", "nbytes", "config": {sizes}, "embedding": M, "output": M, "norm": offset, "layers": [
        {"attn_norm": offset, "ffn_norm": offset, "qkv": [M, ...], "out": M, "gate_up": M, "down": M}]}
    M = {"format", "wide", "n", "k", "data": offset, "scales": offset}

Query, key and value are one matrix where their formats agree; gate and up alternate by tiles. A tied output
is the embedding itself.

What a precision holds: `f32` and `bf16` hold every matrix so. `int4` keeps 4-bit tensors of the file
(`pack_matrix.tile_scales` says how exactly) and stores wider ones in 8 bits; the layers of a file that has
no 4-bit tensors are quantised to 4 bits in groups of 32. `int8` stores everything in 8 bits in groups of 32,
Q8_0 exactly.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from twinfer.errors import ConfigError
from twinfer.model import pack_matrix
from twinfer.model.checkpoint import Checkpoint, Tensor
from twinfer.model.description import Description
from twinfer.model.pack_matrix import FOUR_BIT_KINDS, GROUP, TILE, Codes

PRECISIONS = ("f32", "bf16", "int8", "int4")
ALIGN = 64
BITS = {"f32": 32, "bf16": 16, "int8": 8, "int4": 4}

Writer = Callable[[], "list[tuple[int, NDArray[np.generic]]]"]


class Plan(msgspec.Struct):
    """What will be packed and where. Nothing is read from the checkpoint until `write`."""

    layout: dict[str, Any]
    nbytes: int
    writers: list[Writer]

    def write(self, buffer: memoryview | NDArray[np.uint8]) -> None:
        """Packs everything into a writable buffer of at least `nbytes` bytes."""
        target = np.frombuffer(buffer, np.uint8)
        for writer in self.writers:
            for offset, array in writer():
                place = target[offset : offset + array.nbytes].view(array.dtype).reshape(array.shape)
                place[...] = array


def resolve_precision(checkpoint: Checkpoint, precision: str) -> str:
    """`auto` becomes int4 for files whose layers are mostly 4-bit, int8 for all others.

    Raises:
        ConfigError: there is no such precision.
    """
    if precision == "auto":
        return "int4" if _is_four_bit(checkpoint) else "int8"
    if precision not in PRECISIONS:
        raise ConfigError(f"precision must be one of auto, {', '.join(PRECISIONS)}, not '{precision}'")
    return precision


def pack(checkpoint: Checkpoint, precision: str) -> Plan:
    """Plans the packed form of a checkpoint.

    Raises:
        ConfigError: there is no such precision.
    """
    precision = resolve_precision(checkpoint, precision)
    return _Packer(checkpoint, precision).plan()


def _is_four_bit(checkpoint: Checkpoint) -> bool:
    kinds = [tensor.kind for tensor in _layer_matrices(checkpoint)]
    return 2 * sum(kind in FOUR_BIT_KINDS for kind in kinds) > len(kinds)


def _layer_matrices(checkpoint: Checkpoint) -> list[Tensor]:
    return [t for name, t in checkpoint.tensors.items() if name.startswith("blk.") and t.shape[0] > 1]


class _Packer:
    """Hands out places in the buffer, in the order of use."""

    def __init__(self, checkpoint: Checkpoint, precision: str) -> None:
        self._tensors = checkpoint.tensors
        self._description = checkpoint.description
        self._precision = precision
        self._four_bit_file = _is_four_bit(checkpoint)
        self._size = 0
        self._writers: list[Writer] = []

    def plan(self) -> Plan:
        d = self._description
        layers = [self._layer(i) for i in range(d.layers)]
        embedding = self._matrix(["token_embd.weight"], in_layer=False)
        output = embedding if d.tied else self._matrix(["output.weight"], in_layer=False)
        norm = self._vector("output_norm.weight")
        layout: dict[str, Any] = {
            "precision": self._precision,
            "nbytes": self._size,
            "config": _config(d),
            "embedding": embedding,
            "output": output,
            "norm": norm,
            "layers": layers,
        }
        return Plan(layout, self._size, self._writers)

    def _layer(self, i: int) -> dict[str, Any]:
        def names(*parts: str) -> list[str]:
            return [f"blk.{i}.{part}.weight" for part in parts]

        qkv = names("attn_q", "attn_k", "attn_v")
        same = len({self._kind(name) for name in qkv}) == 1
        gate_up = names("ffn_gate", "ffn_up")
        return {
            "attn_norm": self._vector(f"blk.{i}.attn_norm.weight"),
            "qkv": [self._matrix(group) for group in ([qkv] if same else [[name] for name in qkv])],
            "out": self._matrix(names("attn_output")),
            "ffn_norm": self._vector(f"blk.{i}.ffn_norm.weight"),
            "gate_up": self._pair(gate_up),
            "down": self._matrix(names("ffn_down")),
        }

    def _kind(self, name: str) -> tuple[str, bool]:
        """A matrix's format, and whether its scales are float32."""
        tensor = self._tensors[name]
        format = self._format([tensor], in_layer=True)
        return format, pack_matrix.is_wide([tensor.kind], format)

    def _format(self, tensors: list[Tensor], in_layer: bool) -> str:
        if self._precision != "int4":
            return self._precision
        if all(tensor.kind in FOUR_BIT_KINDS for tensor in tensors):
            return "int4"
        return "int8" if self._four_bit_file or not in_layer else "int4"

    def _matrix(self, names: list[str], in_layer: bool = True) -> dict[str, Any]:
        tensors = [self._tensors[name] for name in names]
        format = self._format(tensors, in_layer)
        n, k = sum(tensor.shape[0] for tensor in tensors), tensors[0].shape[1]
        entry = self._entry(tensors, format, n, k)

        def write() -> list[tuple[int, NDArray[np.generic]]]:
            codes = pack_matrix.joined([pack_matrix.encode(tensor, format) for tensor in tensors])
            return _pieces(entry, [codes])

        self._writers.append(write)
        return entry

    def _pair(self, names: list[str]) -> dict[str, Any]:
        tensors = [self._tensors[name] for name in names]
        format = self._format(tensors, in_layer=True)
        n, k = tensors[0].shape
        entry = self._entry(tensors, format, 2 * _round_up(n, TILE), k)

        def write() -> list[tuple[int, NDArray[np.generic]]]:
            return _pieces(entry, [pack_matrix.encode(tensor, format) for tensor in tensors])

        self._writers.append(write)
        return entry

    def _entry(self, tensors: list[Tensor], format: str, n: int, k: int) -> dict[str, Any]:
        wide = pack_matrix.is_wide([tensor.kind for tensor in tensors], format)
        padded_n, padded_k = _round_up(n, TILE), _round_up(k, GROUP)
        return {
            "format": format,
            "wide": wide,
            "n": n,
            "k": k,
            "data": self._place(padded_n * padded_k * BITS[format] // 8),
            "scales": self._place(pack_matrix.scale_bytes(format, wide, padded_n, padded_k)),
        }

    def _vector(self, name: str) -> int:
        tensor = self._tensors[name]
        offset = self._place(4 * tensor.shape[1])
        self._writers.append(lambda: [(offset, tensor.floats().reshape(-1))])
        return offset

    def _place(self, nbytes: int) -> int:
        offset = self._size
        self._size = _round_up(offset + nbytes, ALIGN)
        return offset


def _pieces(entry: dict[str, Any], parts: list[Codes]) -> list[tuple[int, NDArray[np.generic]]]:
    """What goes where for one matrix; the tiles of several parts alternate."""
    units = np.stack([pack_matrix.tile_units(part.units) for part in parts], axis=1)
    pieces: list[tuple[int, NDArray[np.generic]]] = [(entry["data"], units)]
    tiled = [pack_matrix.tile_scales(part.scales, entry["wide"]) for part in parts if part.scales is not None]
    place = entry["scales"]
    for arrays in zip(*tiled, strict=True):
        pieces.append((place, np.stack(arrays, axis=1)))
        place += pieces[-1][1].nbytes
    return pieces


def _config(d: Description) -> dict[str, Any]:
    sizes = {
        name: getattr(d, name)
        for name in ("layers", "hidden", "heads", "kv_heads", "head_dim", "ffn", "vocab", "rms_eps")
    }
    return {**sizes, "inv_freq": list(d.inv_freq)}


def _round_up(n: int, multiple: int) -> int:
    return -(-n // multiple) * multiple
