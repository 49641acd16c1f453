"""Looking at processes from outside."""

import re
import time
from pathlib import Path

from twinfer.kv.region import LARGE_PAGE, SharedRegion, enlarge_pages, map_region

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


def on_large_pages(name):
    """Bytes of the shared region of this name that this process has mapped by large pages."""
    mappings = re.split(r"\n(?=[0-9a-f]+-)", Path("/proc/self/smaps").read_text())
    sizes = [re.findall(r"ShmemPmdMapped: +(\d+)", mapping)[0] for mapping in mappings if name in mapping]
    return 1024 * sum(int(size) for size in sizes)


def has_large_pages():
    """Whether the system has one to give, and can gather it."""
    region = SharedRegion("probe", LARGE_PAGE)
    mapped = map_region(region.fd, region.nbytes, writable=True)
    region.close()
    return enlarge_pages(mapped)


def wait_until(condition, seconds=PATIENCE):
    """Wait for what must happen."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.02)
