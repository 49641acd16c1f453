"""Running a measurement while nothing else does: how much of the machine others took, and trying again."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

# Cores' worth of other processes' work that a measurement bears.
BEARABLE = 0.05
# Seconds over which we look whether others are at work.
SAMPLE = 0.5


class Done(NamedTuple):
    """What a command printed, and how many cores others kept busy meanwhile."""

    stdout: str
    others: float


def run_quietly(command: list[str], tries: int, patience: float) -> Done:
    """Run a command to its end, up to `tries` times while others disturb it: the least disturbed run.

    Waits before each for others to be done, `patience` seconds at most. Ends the program when the command
    fails, with what it said.
    """
    best: Done | None = None
    for _ in range(tries):
        _wait(patience)
        done = _run(command)
        if best is None or done.others < best.others:
            best = done
        if best.others <= BEARABLE:
            break
    assert best is not None, "there is at least one try"
    return best


def _wait(patience: float) -> None:
    until = time.monotonic() + patience
    while True:
        busy = _busy_seconds()
        time.sleep(SAMPLE)
        if (_busy_seconds() - busy) / SAMPLE <= BEARABLE or time.monotonic() > until:
            return


def _run(command: list[str]) -> Done:
    others = watch_others()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\n{done.stderr[-4000:]}\nerror: the command above failed")
    return Done(done.stdout, others())


def watch_others() -> Callable[[], float]:
    """From now on: a function that tells how many cores others have kept busy, on average, since then.

    Not others are the processes that were started, and have ended, in the meantime.
    """
    began, busy, own = time.monotonic(), _busy_seconds(), _own_seconds()

    def cores() -> float:
        others = (_busy_seconds() - busy) - (_own_seconds() - own)
        return max(0.0, others / (time.monotonic() - began))

    return cores


def _busy_seconds() -> float:
    """Processor time of everyone since the start, time that a hypervisor took for others included."""
    user, nice, system, _, _, irq, softirq, steal, *_ = map(
        int, Path("/proc/stat").read_text().splitlines()[0].split()[1:]
    )
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def _own_seconds() -> float:
    """Processor time of the commands that have been run."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
