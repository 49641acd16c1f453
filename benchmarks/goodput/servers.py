"""How each server that is measured is started: ours in their modes, and the rivals'."""

from __future__ import annotations

import sys

from benchmarks.goodput.table import CHUNKED, DISAGGREGATED, TRADITIONAL
from benchmarks.measuring.serving import Launch, free_port
from benchmarks.rivals.catalog import HOME, RIVALS
from benchmarks.rivals.folder import folder_of
from twinfer.cluster.cores import usable_cores
from twinfer.model.resolve import resolve


def launch(mode: str, targets: list[str]) -> Launch:
    """A server in one of our modes with these options, or a rival of this name, on a free port."""
    port = free_port()
    if mode in (DISAGGREGATED, TRADITIONAL, *CHUNKED):
        return Launch(mode, _ours(mode, port, targets), port)
    return _rival(mode, port)


def _ours(mode: str, port: int, targets: list[str]) -> list[str]:
    how: list[str] = []
    if mode != DISAGGREGATED:
        how = ["--colocate", "--prefill-chunk", "0" if mode == TRADITIONAL else mode.removeprefix("chunk-")]
    return [sys.executable, "-m", "twinfer.cli", "serve", "--port", f"{port}", *how, *targets]


def _rival(name: str, port: int) -> Launch:
    rival, model = RIVALS[name], resolve(None, print)
    filled = {
        "home": HOME / name,
        "model": folder_of(model) if rival.folder else model,
        "port": port,
        "cores": ",".join(map(str, usable_cores())),
    }
    command = [part.format(**filled) for part in rival.server]
    environment = tuple((key, value.format(**filled)) for key, value in rival.serving)
    return Launch(name, command, port, environment)
