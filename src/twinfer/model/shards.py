"""The safetensors container: one file, or several with an index. Tensors are views of the mapped files.

The format: https://github.com/huggingface/safetensors#format
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, cast

import msgspec
import numpy as np
import numpy.typing as npt

from twinfer.errors import ModelError
from twinfer.model.checkpoint import KINDS, Tensor
from twinfer.model.mapped import map_file

SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
DTYPES = ("F32", "F16", "BF16")


class _Entry(msgspec.Struct, frozen=True):
    dtype: str
    shape: tuple[int, ...]
    data_offsets: tuple[int, int]


class _Index(msgspec.Struct, frozen=True):
    weight_map: dict[str, str]


def read_shards(folder: Path) -> dict[str, Tensor]:
    """All tensors of a folder, by the names the files give them.

    Raises:
        ModelError: a file is missing, damaged or cut short, or holds a type that is not supported.
    """
    tensors: dict[str, Tensor] = {}
    for name in _files(folder):
        for tensor in _read(folder / name):
            if tensor.name in tensors:
                raise ModelError(f"two files hold tensor '{tensor.name}'")
            tensors[tensor.name] = tensor
    return tensors


def _files(folder: Path) -> list[str]:
    if (folder / SINGLE).is_file():
        return [SINGLE]
    try:
        text = (folder / INDEX).read_bytes()
    except OSError:
        raise ModelError(f"the folder holds neither {SINGLE} nor {INDEX}") from None
    try:
        index = msgspec.json.decode(text, type=_Index)
    except msgspec.MsgspecError as error:
        raise ModelError(f"{INDEX} is damaged: {error}") from None
    names = sorted(set(index.weight_map.values()))
    for name in names:
        if "/" in name or not (folder / name).is_file():
            raise ModelError(f"{INDEX} names the file '{name}', which is missing")
    return names


def _read(path: Path) -> list[Tensor]:
    data = map_file(path)
    length = int.from_bytes(data[:8].tobytes(), "little")
    start = 8 + length
    if len(data) < 8 or start > len(data):
        raise ModelError(f"{path.name} is cut short within its header")
    try:
        header = msgspec.json.decode(data[8:start].data, type=dict[str, Any])
        entries = {
            name: msgspec.convert(entry, _Entry) for name, entry in header.items() if name != "__metadata__"
        }
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ModelError(f"{path.name} has a damaged header: {error}") from None
    return [_tensor(name, entry, data[start:], path.name) for name, entry in entries.items()]


def _tensor(name: str, entry: _Entry, data: npt.NDArray[np.uint8], file: str) -> Tensor:
    kind = entry.dtype
    if kind not in DTYPES:
        raise ModelError(f"tensor '{name}' is of type {entry.dtype}; supported: {', '.join(DTYPES)}")
    if len(entry.shape) not in (1, 2) or min(entry.shape) < 1:
        raise ModelError(f"tensor '{name}' has shape {list(entry.shape)}; only matrices are supported")
    begin, end = entry.data_offsets
    row_bytes = entry.shape[-1] * KINDS[kind][1]
    rows = math.prod(entry.shape[:-1])
    if begin < 0 or end - begin != rows * row_bytes:
        raise ModelError(f"tensor '{name}' of shape {list(entry.shape)} does not fit its bytes in {file}")
    if end > len(data):
        raise ModelError(f"{file} is cut short: tensor '{name}' ends past the end of the file")
    view = cast("npt.NDArray[np.uint8]", data[begin:end].reshape(rows, row_bytes))
    return Tensor(name, kind, (rows, entry.shape[-1]), view)
