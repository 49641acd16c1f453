"""Threads give way to those with shorter turns."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

KERNEL = tuple(int(number) for number in re.findall(r"\d+", os.uname().release)[:2])

pytestmark = [
    pytest.mark.skipif(KERNEL < (6, 12), reason="Linux knows turns of a thread's own since 6.12"),
    pytest.mark.skipif(not Path("/proc/self/sched").exists(), reason="this kernel does not show turns"),
]

TURNS = """
import threading
from pathlib import Path

def turns(task):
    lines = Path(f"/proc/{task}/sched").read_text().splitlines()
    return next(int(line.split()[-1]) for line in lines if line.startswith("se.slice"))

def own():
    return turns(f"self/task/{threading.get_native_id()}")
"""

THREADS = """
from twinfer._native import take_turns

def old():
    go.wait()
    print(own() == before)

before = own()
go = threading.Event()
threads = [threading.Thread(target=old), threading.Thread(target=lambda: print(own()))]
threads[0].start()
take_turns(0.0004)
go.set()
threads[0].join()
threads[1].start()
threads[1].join()
print(own())
"""

ENGINES = """
from collections import Counter
from twinfer import LLM

if __name__ == "__main__":
    user = own()
    with LLM(kv_pool_size="32MiB") as llm:
        for line in Path("/proc/self/task").glob("*/children"):
            for child in line.read_text().split():
                if "twinfer.engine" in Path(f"/proc/{child}/cmdline").read_text():
                    tasks = Path(f"/proc/{child}/task").iterdir()
                    found = Counter(turns(f"{child}/task/{task.name}") for task in tasks)
                    print(found[1_000_000], sorted(found))
        print(own() == user)
"""


def printed(program: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", TURNS + program], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_a_thread_and_those_that_it_starts_take_the_turns_asked_for():
    assert printed(THREADS) == ["True", "400000", "400000"]


def test_messages_come_before_steps_and_steps_before_help():
    assert printed(ENGINES) == ["1 [100000, 1000000, 10000000]"] * 2 + ["True"]
