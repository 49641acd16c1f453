"""What the commands that measure servers have in common: a progress bar, an end, and an error's exit code."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import typer
from tqdm import tqdm

from twinfer.bench.serve.failure import ServerError
from twinfer.errors import ConfigError

T = TypeVar("T")


def progress_bar(name: str, total: int | None, wanted: bool | None) -> tqdm[Any]:
    """A progress bar over requests, on stderr; `wanted` None is: in a terminal."""
    hidden = None if wanted is None else not wanted
    return tqdm(desc=name or None, total=total, unit="req", disable=hidden, leave=False, mininterval=0.5)


def or_exit(run: Callable[[], T]) -> T:
    """What `run` returns. One line and exit code 1 when the server cannot be measured; 130 on Ctrl-C."""
    try:
        return run()
    except ServerError as error:
        print(f"twinfer: error: {error}", file=sys.stderr)
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


def finish(line: str, path: Path | None) -> None:
    """Print a report's JSON as the last line, and write it to a file where one is named.

    Raises:
        ConfigError: the file cannot be written.
    """
    print(line, flush=True)
    if path is None:
        return
    try:
        path.write_text(line + "\n")
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror}") from None
