"""Our side of the process that renders chat templates: started when first needed, and again when it broke."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import threading
import time
import weakref
from typing import Any

import msgspec

from twinfer.model.template_worker import CPU_SECONDS, write_frame

PATIENCE = 20.0
"""Seconds to wait for an answer on a machine that is busy with other things."""

KEPT_VARIABLES = ("PATH", "PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH", "LANG", "LC_ALL", "TZ")


class RenderError(Exception):
    """The template failed; the text says how."""


class TemplateProcess:
    """Renders chats with one template. May be called from any thread."""

    def __init__(self, source: str, tokens: dict[str, str]) -> None:
        self._first = msgspec.json.encode({"source": source, "tokens": tokens})
        self._process: subprocess.Popen[bytes] | None = None
        self._end: weakref.finalize[Any, Any] | None = None
        self._lock = threading.Lock()
        self._closed = False

    def start(self) -> None:
        """Start the process now, so that the first chat need not wait for it."""
        with self._lock:
            self._started()

    def render(self, chat: bytes) -> str:
        """The text for a chat, given as JSON of the template's variables.

        Raises:
            RenderError: the template fails, or asks for too much.
        """
        with self._lock:
            process = self._started()
            try:
                answer = _exchange(process, chat)
            except (OSError, EOFError, msgspec.DecodeError):
                raise RenderError(self._ended()) from None
        if "text" not in answer:
            raise RenderError(answer.get("error", "it gave no text"))
        return answer["text"]

    def close(self) -> None:
        """End the process for good. Idempotent."""
        with self._lock:
            self._closed = True
            if self._end is not None:
                self._end()
            self._process = self._end = None

    def _started(self) -> subprocess.Popen[bytes]:
        if self._closed:
            raise RenderError("the model was closed")
        if self._process is None:
            # Nothing of our environment that a template has no business to know.
            environment = {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}
            self._process = process = subprocess.Popen(
                [sys.executable, "-m", "twinfer.model.template_worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=environment,
                start_new_session=True,
            )
            self._end = weakref.finalize(self, _end, process)
            assert process.stdin is not None
            write_frame(process.stdin, self._first)
        return self._process

    def _ended(self) -> str:
        """Clear up after a process that is gone or to be given up; why, in words."""
        process, end = self._process, self._end
        self._process = self._end = None
        assert process is not None
        assert end is not None
        end()
        if process.returncode == -signal.SIGPROF:
            return f"it takes more than {CPU_SECONDS:g} s"
        return "it breaks the process that it runs in"


def _exchange(process: subprocess.Popen[bytes], frame: bytes) -> dict[str, str]:
    """Send a frame and wait for its answer.

    Raises:
        OSError, EOFError, DecodeError: the process has ended, or does not answer.
    """
    assert process.stdin is not None
    write_frame(process.stdin, frame)
    deadline = time.monotonic() + PATIENCE
    length = int.from_bytes(_read(process, 8, deadline), "big")
    return msgspec.json.decode(_read(process, length, deadline), type=dict[str, str])


def _read(process: subprocess.Popen[bytes], size: int, deadline: float) -> bytes:
    assert process.stdout is not None
    out = process.stdout.fileno()
    poll = select.poll()
    poll.register(out, select.POLLIN)
    data = bytearray()
    while len(data) < size:
        if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
            raise TimeoutError
        piece = os.read(out, min(size - len(data), 1 << 20))
        if not piece:
            raise EOFError
        data += piece
    return bytes(data)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):  # It could not take what was still to be written.
                pipe.close()
    process.wait()
