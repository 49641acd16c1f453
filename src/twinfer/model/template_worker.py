"""The process in which a model's chat template runs: `python -m twinfer.model.template_worker`.

A template is a program that came with a model's file. Jinja's sandbox keeps it from everything but the
messages; the kernel keeps it from taking more processor time and memory than it may have, in whatever way.
It reads frames from stdin, the template first and then chats, answers each on stdout, and ends with stdin.
"""

from __future__ import annotations

import json
import resource
import signal
import sys
from datetime import datetime
from typing import IO, Any, NoReturn

from jinja2 import Environment, Template, TemplateError
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

CPU_SECONDS = 1.0
"""For one chat, or for compiling the template. The process is killed at that."""

MEMORY = 1 << 30
"""Bytes of address space."""

MOST_CHARACTERS = 1 << 24
"""Of a rendered chat."""

MOST_ERROR = 300


def main() -> None:
    """Answer until there is no more to read."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    first = read_frame(sys.stdin.buffer)
    if first is None:
        return
    given = json.loads(first)
    template: Template | None = None
    while (frame := read_frame(sys.stdin.buffer)) is not None:
        signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
        try:
            template = template or compile_template(given["source"])
            answer = {"text": render(template, {**given["tokens"], **json.loads(frame)})}
        except Exception as error:  # a program of the model's, that can fail in any way
            answer = {"error": describe(error)}
        signal.setitimer(signal.ITIMER_PROF, 0)
        write_frame(sys.stdout.buffer, json.dumps(answer).encode())


def environment() -> Environment:
    """Jinja with the settings and names that chat templates are written for."""
    made = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
    made.filters["tojson"] = _to_json  # pyright: ignore[reportUnknownMemberType]
    return made


def compile_template(source: str) -> Template:
    """Raises TemplateError, or whatever else the template provokes."""
    functions = {"raise_exception": _raise_exception, "strftime_now": _strftime_now}
    return environment().from_string(source, globals=functions)


def render(template: Template, variables: dict[str, Any]) -> str:
    """Raises TemplateError if there are too many characters, or whatever the template provokes."""
    pieces: list[str] = []
    size = 0
    for piece in template.generate(variables):
        size += len(piece)
        if size > MOST_CHARACTERS:
            raise TemplateError(f"it renders to more than {MOST_CHARACTERS} characters")
        pieces.append(piece)
    return "".join(pieces)


def describe(error: Exception) -> str:
    """One line, not too long."""
    if isinstance(error, MemoryError):
        return f"it needs more than {MEMORY >> 20} MiB of memory"
    return " ".join(str(error)[:MOST_ERROR].split()) or type(error).__name__


def read_frame(stream: IO[bytes]) -> bytes | None:
    """The next frame, its length in 8 bytes before it; None at the end."""
    head = stream.read(8)
    return stream.read(int.from_bytes(head, "big")) if len(head) == 8 else None


def write_frame(stream: IO[bytes], frame: bytes) -> None:
    """Raises OSError if nobody reads."""
    stream.write(len(frame).to_bytes(8, "big") + frame)
    stream.flush()


def _raise_exception(message: str) -> NoReturn:
    raise TemplateError(message)


def _strftime_now(pattern: str) -> str:
    return datetime.now().strftime(pattern)


def _to_json(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


if __name__ == "__main__":
    main()
