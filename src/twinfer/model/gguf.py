"""The GGUF container: header, metadata and tensor table, of versions 2 and 3, little endian.

It knows no model: what the metadata mean is `gguf_llama`'s matter. Tensors are views of the mapped file.
The format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
from gguf.constants import GGMLQuantizationType

from twinfer.errors import ModelError
from twinfer.model.checkpoint import KINDS, Tensor
from twinfer.model.mapped import map_file

MAGIC = b"GGUF"
VERSIONS = (2, 3)
MAX_DIMENSIONS = 4
MAX_NESTING = 4
STRING, ARRAY = 8, 9
SCALARS = {
    0: struct.Struct("<B"),
    1: struct.Struct("<b"),
    2: struct.Struct("<H"),
    3: struct.Struct("<h"),
    4: struct.Struct("<I"),
    5: struct.Struct("<i"),
    6: struct.Struct("<f"),
    7: struct.Struct("<?"),
    10: struct.Struct("<Q"),
    11: struct.Struct("<q"),
    12: struct.Struct("<d"),
}
U32, U64 = SCALARS[4], SCALARS[10]


class Entry(msgspec.Struct, frozen=True):
    """A line of the tensor table; `dims` counts columns first, `offset` is from the start of the data."""

    name: str
    dims: tuple[int, ...]
    kind: int
    offset: int


class File(msgspec.Struct, frozen=True, eq=False):
    """An opened GGUF file.

    metadata  plain Python values by key
    entries   the tensor table
    data      uint8 [bytes of the file], mapped
    start     where in `data` the tensors begin
    """

    metadata: dict[str, Any]
    entries: list[Entry]
    data: npt.NDArray[np.uint8]
    start: int


def read(path: Path) -> File:
    """Map a GGUF file and read its header: metadata and tensor table.

    Raises:
        ModelError: the header is damaged or cut short, or of a version that is not supported.
    """
    data = map_file(path)
    try:
        cursor = _Cursor(data)
        _check_version(cursor)
        tensor_count, metadata_count = cursor.scalar(U64), cursor.scalar(U64)
        metadata = _read_metadata(cursor, metadata_count)
        entries = [_read_entry(cursor) for _ in range(tensor_count)]
    except struct.error:
        raise ModelError("the file is cut short within its header") from None
    except UnicodeDecodeError:
        raise ModelError("the header holds text that is not UTF-8; the file is damaged") from None
    return File(metadata, entries, data, _data_start(cursor.position, metadata))


def tensors(file: File) -> dict[str, Tensor]:
    """All tensors of a file by name, as views of the mapped bytes.

    Raises:
        ModelError: a tensor lies past the end of the file, is named twice, or is of a kind not supported.
    """
    found: dict[str, Tensor] = {}
    for entry in file.entries:
        if entry.name in found:
            raise ModelError(f"the file names tensor '{entry.name}' twice")
        found[entry.name] = _tensor(entry, file.data, file.start)
    return found


class _Cursor:
    """Reads values one after another; past the end of the file it raises struct.error."""

    def __init__(self, data: npt.NDArray[np.uint8]) -> None:
        self.data = data.data
        self.position = 0

    def take(self, count: int) -> memoryview:
        end = self.position + count
        if end > len(self.data):
            raise struct.error
        taken = self.data[self.position : end]
        self.position = end
        return taken

    def scalar(self, kind: struct.Struct) -> Any:
        return kind.unpack(self.take(kind.size))[0]

    def string(self) -> str:
        return str(self.take(self.scalar(U64)), "utf-8")

    def strings(self, count: int) -> list[str]:
        # The tokeniser's lists hold a hundred thousand strings, hence the loop without calls of our own.
        data, position, size, length = self.data, self.position, len(self.data), U64.unpack_from
        found: list[str] = []
        for _ in range(count):
            start = position + 8
            position = start + length(data, position)[0]
            if position > size:
                raise struct.error
            found.append(str(data[start:position], "utf-8"))
        self.position = position
        return found


def _check_version(cursor: _Cursor) -> None:
    if bytes(cursor.take(4)) != MAGIC:
        raise ModelError("the file is not a GGUF file: it does not begin with 'GGUF'")
    version = cursor.scalar(U32)
    if version not in VERSIONS:
        big = int.from_bytes(version.to_bytes(4, "little"), "big") in VERSIONS
        what = "big-endian GGUF" if big else f"GGUF version {version}"
        raise ModelError(f"{what} is not supported; supported: versions 2 and 3, little-endian")


def _read_metadata(cursor: _Cursor, count: int) -> dict[str, Any]:
    metadata: dict[str, Any] = {}
    for _ in range(count):
        key = cursor.string()
        if key in metadata:
            raise ModelError(f"the file gives metadata '{key}' twice")
        metadata[key] = _read_value(cursor, cursor.scalar(U32))
    return metadata


def _read_value(cursor: _Cursor, kind: int, depth: int = 0) -> Any:
    if kind == STRING:
        return cursor.string()
    if kind == ARRAY:
        return _read_array(cursor, depth)
    scalar = SCALARS.get(kind)
    if scalar is None:
        raise ModelError(f"the metadata hold a value of unknown type {kind}; the file is damaged")
    return cursor.scalar(scalar)


def _read_array(cursor: _Cursor, depth: int) -> list[Any]:
    kind, count = cursor.scalar(U32), cursor.scalar(U64)
    if kind == STRING:
        return cursor.strings(count)
    if kind == ARRAY:
        if depth == MAX_NESTING:
            raise ModelError(f"the metadata nest arrays more than {MAX_NESTING} deep; the file is damaged")
        return [_read_value(cursor, ARRAY, depth + 1) for _ in range(count)]
    scalar = SCALARS.get(kind)
    if scalar is None:
        raise ModelError(f"the metadata hold an array of unknown type {kind}; the file is damaged")
    return [value for (value,) in scalar.iter_unpack(cursor.take(count * scalar.size))]


def _read_entry(cursor: _Cursor) -> Entry:
    name = cursor.string()
    count = cursor.scalar(U32)
    if not 1 <= count <= MAX_DIMENSIONS:
        raise ModelError(f"tensor '{name}' has {count} dimensions; the file is damaged")
    dims = tuple(cursor.scalar(U64) for _ in range(count))
    return Entry(name, dims, cursor.scalar(U32), cursor.scalar(U64))


def _data_start(header_end: int, metadata: dict[str, Any]) -> int:
    alignment = metadata.get("general.alignment", 32)
    if not isinstance(alignment, int) or alignment < 1 or alignment & (alignment - 1):
        raise ModelError(f"the alignment must be a power of two, not {alignment!r}")
    return -(-header_end // alignment) * alignment


def _tensor(entry: Entry, data: npt.NDArray[np.uint8], start: int) -> Tensor:
    kind, (block, block_bytes) = _kind(entry)
    columns, rows = entry.dims[0], entry.dims[1] if len(entry.dims) > 1 else 1
    if any(size != 1 for size in entry.dims[2:]):
        raise ModelError(f"tensor '{entry.name}' has shape {entry.dims[::-1]}; only matrices are supported")
    if columns < 1 or rows < 1 or columns % block:
        raise ModelError(f"tensor '{entry.name}' has {rows} rows of {columns}, which {kind} cannot hold")
    row_bytes = columns // block * block_bytes
    begin = start + entry.offset
    end = begin + rows * row_bytes
    if end > len(data):
        raise ModelError(
            f"the file is cut short: tensor '{entry.name}' ends at byte {end}, the file at {len(data)}"
        )
    return Tensor(entry.name, kind, (rows, columns), data[begin:end].reshape(rows, row_bytes))


def _kind(entry: Entry) -> tuple[str, tuple[int, int]]:
    try:
        kind = GGMLQuantizationType(entry.kind).name
    except ValueError:
        kind = f"number {entry.kind}"
    if kind not in KINDS:
        supported = ", ".join(KINDS)
        raise ModelError(f"tensor '{entry.name}' is quantised as {kind}; supported: {supported}")
    return kind, KINDS[kind]
