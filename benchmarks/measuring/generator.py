"""The load generator, in a process of its own: `twinfer bench`."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from benchmarks.measuring.serving import MeasureError


def bench(url: str, what: str, options: list[str], *, within: float = 900.0) -> dict[str, Any]:
    """The report of a `twinfer bench` command on a server that runs; it may take `within` seconds.

    Raises:
        MeasureError: it gave none; the message says why.
    """
    command = [sys.executable, "-m", "twinfer.cli", "bench", what, "--url", url, *options]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=within)
    except subprocess.TimeoutExpired:
        raise MeasureError("the load generator did not end") from None
    if done.returncode != 0:
        raise MeasureError((done.stderr.strip().splitlines() or ["no reason given"])[-1])
    report: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return report
