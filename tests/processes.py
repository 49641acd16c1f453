"""Looking at processes from outside."""

import time
from pathlib import Path


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


def wait_until(condition, seconds=15):
    """Wait for what must happen soon."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.02)
