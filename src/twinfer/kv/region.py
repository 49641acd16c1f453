"""Shared memory without a name: a memfd that engines inherit, gone when its last user is gone."""

from __future__ import annotations

import contextlib
import mmap
import os

from twinfer.errors import EngineError


class SharedRegion:
    """`nbytes` of zeroed shared memory, mapped on first use. Pages cost memory once they are written.

    `fd` is passed to the engines. Close it with `close`; mappings of others stay valid.
    """

    def __init__(self, name: str, nbytes: int) -> None:
        self.nbytes = nbytes
        self.fd = os.memfd_create(name, os.MFD_CLOEXEC)
        os.ftruncate(self.fd, nbytes)

    def close(self) -> None:
        """Drop the descriptor. Idempotent."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


def map_region(fd: int, nbytes: int, *, writable: bool) -> mmap.mmap:
    """Map an inherited region, on huge pages where the host allows them.

    Raises:
        EngineError: the region cannot be mapped.
    """
    access = mmap.PROT_READ | (mmap.PROT_WRITE if writable else 0)
    try:
        mapped = mmap.mmap(fd, nbytes, mmap.MAP_SHARED, access)
    except (OSError, ValueError) as error:
        raise EngineError(f"cannot map {nbytes} bytes of shared memory: {error}") from None
    with contextlib.suppress(OSError, AttributeError):
        mapped.madvise(mmap.MADV_HUGEPAGE)
    return mapped
