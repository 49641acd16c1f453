"""A file's bytes without reading them: the operating system brings pages in as they are used."""

from __future__ import annotations

import mmap
from pathlib import Path

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
