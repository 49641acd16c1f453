"""Looking at processes from outside."""

import time
from pathlib import Path

PATIENCE = 120.0
"""Seconds after which what must happen never will, however much else the machine has to do."""


def children(pid):
    """Process numbers of the direct children that are alive."""
    paths = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for path in paths for child in path.read_text().split() if alive(int(child))]


def alive(pid):
    """Whether a process runs, and is not just waiting to be collected."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_until(condition, seconds=PATIENCE):
    """Wait for what must happen."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.02)
