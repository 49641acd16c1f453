"""A server as a process of ours, with all that it starts: when it is ended, nothing of it is left."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

from benchmarks.measuring.record import ROOT

STARTS_WITHIN = 600.0
"""Seconds; compiling servers take minutes the first time."""

ENDS_WITHIN = 30.0
LOGS = ROOT / "build" / "servers"
PR_SET_CHILD_SUBREAPER = 36


class MeasureError(Exception):
    """A server or the load generator did not do its part; the message says where to look."""


class Launch(NamedTuple):
    """How to start a server that will listen on `port`; `name` is for its log."""

    name: str
    command: list[str]
    port: int
    environment: tuple[tuple[str, str], ...] = ()


def free_port() -> int:
    """A port of the loopback that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def serving(launch: Launch) -> Iterator[str]:
    """A server's address, while it runs. What it prints goes to a log.

    Raises:
        MeasureError: it does not start.
    """
    LOGS.mkdir(parents=True, exist_ok=True)
    log = LOGS / f"{launch.name}.log"
    url = f"http://127.0.0.1:{launch.port}"
    with log.open("w") as output, _adopting():
        process = subprocess.Popen(
            launch.command,
            stdout=output,
            stderr=output,
            env={**os.environ, **dict(launch.environment)},
            start_new_session=True,
        )
        try:
            if not _answers(url, process):
                raise MeasureError(f"{launch.name} does not start; see {log}")
            yield url
        finally:
            _end(process)


@contextmanager
def _adopting() -> Iterator[None]:
    """What a server leaves behind becomes a child of ours: its time is counted, and its end seen."""
    prctl = ctypes.CDLL(None).prctl
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        yield
    finally:
        prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def _answers(url: str, process: subprocess.Popen[bytes]) -> bool:
    """Wait until it lists its model; False when it has ended, or takes too long."""
    end = time.monotonic() + STARTS_WITHIN
    while process.poll() is None and time.monotonic() < end:
        with suppress(OSError), urllib.request.urlopen(f"{url}/v1/models", timeout=5):
            return True
        time.sleep(0.1)
    return False


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the server, then whatever of its session is still there."""
    process.terminate()
    with suppress(subprocess.TimeoutExpired):
        process.wait(ENDS_WITHIN)
    patience = time.monotonic() + ENDS_WITHIN / 3
    while _left(process.pid):
        if process.poll() is None or time.monotonic() > patience:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.poll()
        time.sleep(0.05)


def _left(group: int) -> bool:
    """Whether children of ours are left in a group; those that have ended are taken away."""
    try:
        while os.waitpid(-group, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True
