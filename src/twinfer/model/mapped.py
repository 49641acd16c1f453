"""A file's bytes without reading them: the operating system brings pages in as they are used."""

from __future__ import annotations

import mmap
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from twinfer.errors import ModelError


def map_file(path: Path) -> npt.NDArray[np.uint8]:
    """uint8 [size of the file], read-only, mapped for as long as a view of it lives.

    Raises:
        ModelError: the file cannot be opened, or is empty.
    """
    try:
        with path.open("rb") as file:
            return np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), np.uint8)
    except OSError as error:
        raise ModelError(f"{path.name} cannot be read: {error.strerror}") from None
    except ValueError:
        raise ModelError(f"{path.name} is empty") from None


def release(arrays: Iterable[npt.NDArray[Any]]) -> None:
    """Give back the memory of the files that the arrays are views of; they can still be read."""
    mappings = {id(mapping): mapping for array in arrays if (mapping := _mapping(array)) is not None}
    for mapping in mappings.values():
        mapping.madvise(mmap.MADV_DONTNEED)


def _mapping(array: npt.NDArray[Any]) -> mmap.mmap | None:
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    if isinstance(base, memoryview):
        base = base.obj
    return base if isinstance(base, mmap.mmap) else None
