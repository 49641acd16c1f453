"""Shared memory without a name: a memfd that engines inherit, gone when its last user is gone.

What is read at every step had better lie on large pages. Small ones are taken from all over the memory of a
machine that has run for a while, and are then read up to a tenth more slowly.
"""

from __future__ import annotations

import ctypes
import mmap
import os

from twinfer.errors import EngineError

LARGE_PAGE = 1 << 21

_MAP_FIXED = 0x10
_MAP_NORESERVE = 0x4000
_MADV_HUGEPAGE, _MADV_COLLAPSE = 14, 25  # the latter since Linux 6.1

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
_libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


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


def map_region(fd: int, nbytes: int, *, writable: bool) -> memoryview:
    """Map an inherited region, at an address where it may lie on large pages; unmapped with the last view.

    Raises:
        EngineError: the region cannot be mapped.
    """
    protection = mmap.PROT_READ | (mmap.PROT_WRITE if writable else 0)
    try:
        if not 0 < nbytes <= os.fstat(fd).st_size:
            raise OSError("it is not so large")
        # Python maps anywhere; in a reservation of its, an aligned part becomes the region.
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE
        reserved = memoryview(mmap.mmap(-1, nbytes + LARGE_PAGE, flags))
        skipped = -_address(reserved) % LARGE_PAGE
        mapped = reserved[skipped : skipped + nbytes]
        place = _address(mapped)
        if _libc.mmap(place, nbytes, protection, mmap.MAP_SHARED | _MAP_FIXED, fd, 0) != place:
            raise OSError(os.strerror(ctypes.get_errno()))
        _libc.madvise(place, nbytes, _MADV_HUGEPAGE)
    except (OSError, ValueError) as error:
        raise EngineError(f"cannot map {nbytes} bytes of shared memory: {error}") from None
    return mapped if writable else mapped.toreadonly()


def enlarge_pages(mapped: memoryview) -> bool:
    """Gather a writable part of a region on large pages, whatever the system does by itself.

    All of it becomes memory now. Its content stays what it is, and others may use it meanwhile. False when
    some of it stays on small pages, since there is no large one or the kernel knows no better.
    """
    for start in range(0, len(mapped), LARGE_PAGE):
        mapped[start]  # There must be something to gather.
    return _libc.madvise(_address(mapped), len(mapped), _MADV_COLLAPSE) == 0


def _address(view: memoryview) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(view))
