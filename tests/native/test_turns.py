"""Threads of an engine give way at once."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

KERNEL = tuple(int(number) for number in re.findall(r"\d+", os.uname().release)[:2])

PROGRAM = """
import threading
from pathlib import Path
from twinfer._native import take_short_turns

def turns():
    lines = Path(f"/proc/self/task/{threading.get_native_id()}/sched").read_text().splitlines()
    return next(int(line.split()[-1]) for line in lines if line.startswith("se.slice"))

def old():
    go.wait()
    print(turns())

go = threading.Event()
threads = [threading.Thread(target=old), threading.Thread(target=lambda: print(turns()))]
threads[0].start()
take_short_turns()
go.set()
threads[0].join()
threads[1].start()
threads[1].join()
print(turns())
"""


@pytest.mark.skipif(KERNEL < (6, 12), reason="Linux knows turns of a thread's own since 6.12")
@pytest.mark.skipif(not Path("/proc/self/sched").exists(), reason="this kernel does not show turns")
def test_all_threads_take_the_shortest_turns_old_and_new():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["100000"] * 3
