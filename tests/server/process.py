"""`twinfer serve` as a process of its own, ready when its banner says so."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from queue import Queue

import msgspec

COMMAND = [sys.executable, "-m", "twinfer.cli"]


class Server(msgspec.Struct):
    """A running server; `banner` is all that it printed until it was ready."""

    process: subprocess.Popen[str]
    url: str
    banner: str


@contextmanager
def serving(*options: str, exit_code: int = 0) -> Iterator[Server]:
    """A server on a free port, ended with SIGTERM; it must go quietly and with this exit code."""
    command = [*COMMAND, "serve", "--port", "0", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    errors: Queue[str] = Queue()
    reader = threading.Thread(target=_collect, args=(process, errors))
    reader.start()
    try:
        banner = _banner(process)
        address = re.search(r"https?://[\w.:]+", banner)
        assert address is not None, f"no address in the banner: {banner!r}; {''.join(errors.queue)}"
        yield Server(process, address[0], banner)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            code = process.wait(20)
        finally:
            process.kill()
            reader.join()
            assert process.stdout is not None
            assert process.stderr is not None
            process.stdout.close()
            process.stderr.close()
    assert code == exit_code
    assert "Traceback" not in "".join(errors.queue), "".join(errors.queue)


def _banner(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    lines: list[str] = []
    for line in process.stdout:
        lines.append(line)
        if "Ctrl-C" in line:
            break
    return "".join(lines)


def _collect(process: subprocess.Popen[str], errors: Queue[str]) -> None:
    """Keep stderr from filling up."""
    assert process.stderr is not None
    for line in process.stderr:
        errors.put(line)
