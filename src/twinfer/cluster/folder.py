"""A folder for sockets that is gone with its process, or at the latest when the next one starts."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from pathlib import Path

PREFIX = "twinfer-socket-"
SETTLED = 10.0
"""Seconds after which a new folder is surely locked by its owner."""


class PrivateFolder:
    """A new folder that only this user can read; it holds a lock on it while it lives.

    A process that is killed cannot clear up, but its lock is gone: that is how its folder is found later.
    """

    def __init__(self, parent: Path | None = None) -> None:
        parent = parent or Path(tempfile.gettempdir())
        _remove_left_behind(parent)
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
        self._lock = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        fcntl.flock(self._lock, fcntl.LOCK_EX)

    def remove(self) -> None:
        """Remove it with all that is in it. Idempotent."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def _remove_left_behind(parent: Path) -> None:
    for path in parent.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):  # It is in use, or gone by now.
            facts = path.lstat()
            if facts.st_uid == os.getuid() and time.time() - facts.st_mtime > SETTLED:
                _remove_if_unlocked(path)


def _remove_if_unlocked(path: Path) -> None:
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(folder)
