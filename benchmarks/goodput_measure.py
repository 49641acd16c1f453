"""One measurement: a server of its own is started, asked by `twinfer bench` in another process, and ended."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from quiet import watch_others

STARTS_WITHIN = 600.0
"""Seconds; compiling servers take minutes."""

ENDS_WITHIN = 30.0
LOGS = Path(__file__).parents[1] / "build" / "goodput"
KEPT = ("completed", "failed", "refused", "duration_s", "req_s", "out_tok_s", "in_tok_s", "goodput_req_s")
KEPT += (
    "ttft_ms",
    "tpot_ms",
    "itl_ms",
    "input_tokens",
    "output_tokens",
    "cached_share",
    "client_cpu",
    "errors",
)


class MeasureError(Exception):
    """A server or the load generator did not do its part; the message says where to look."""


class Launch(NamedTuple):
    """How to start a server that will listen on `port`; `name` is for its log."""

    name: str
    command: list[str]
    port: int
    environment: tuple[tuple[str, str], ...] = ()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def probe_rate(launch: Launch, ask: list[str], rate: float) -> dict[str, Any]:
    """Whether a fresh server passes at a rate, and the figures: one probe of `twinfer bench goodput`.

    Raises:
        MeasureError: no server, or no report.
    """
    at = f"{rate:g}"
    options = ["--start-rate", at, "--min-rate", at, "--max-rate", at, "--no-progress", *ask]
    report = _bench(launch, "goodput", options)
    [probe] = report["probes"]
    figures = {name: probe["report"][name] for name in KEPT}
    verdict = {name: probe[name] for name in ("attainment", "met", "stopped_early", "requests")}
    return {**verdict, **figures, "others": report["others"]}


def one_by_one(launch: Launch, ask: list[str]) -> dict[str, Any]:
    """The figures of requests one after another to a fresh server.

    Raises:
        MeasureError: no server, no report, or not every request was answered.
    """
    report = _bench(launch, "serve", ["--concurrency", "1", "--no-progress", *ask])
    if report["failed"] or report["refused"]:
        raise MeasureError(f"{launch.name}: not every request was answered: {report['errors']}")
    return {**{name: report[name] for name in KEPT}, "others": report["others"]}


def _bench(launch: Launch, what: str, options: list[str]) -> dict[str, Any]:
    """The report of a `twinfer bench` command, and with it how many cores others kept busy meanwhile."""
    others = watch_others()
    with serving(launch) as url:
        command = [sys.executable, "-m", "twinfer.cli", "bench", what, "--url", url, *options]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
        except subprocess.TimeoutExpired:
            raise MeasureError(f"{launch.name}: the load generator did not end") from None
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise MeasureError(f"{launch.name}: {last}")
    return {**json.loads(done.stdout.splitlines()[-1]), "others": round(others(), 3)}


@contextmanager
def serving(launch: Launch) -> Iterator[str]:
    """A server's address, while it runs. What it prints goes to a log.

    Raises:
        MeasureError: it does not start.
    """
    LOGS.mkdir(parents=True, exist_ok=True)
    log = LOGS / f"{launch.name}.log"
    url = f"http://127.0.0.1:{launch.port}"
    with log.open("w") as output:
        process = subprocess.Popen(
            launch.command, stdout=output, stderr=output, env={**os.environ, **dict(launch.environment)}
        )
        try:
            if not _answers(url, process):
                raise MeasureError(f"{launch.name} does not start; see {log}")
            yield url
        finally:
            process.terminate()
            try:
                process.wait(ENDS_WITHIN)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _answers(url: str, process: subprocess.Popen[bytes]) -> bool:
    """Wait until it lists its model; False when it has ended, or takes too long."""
    end = time.monotonic() + STARTS_WITHIN
    while process.poll() is None and time.monotonic() < end:
        with suppress(OSError), urllib.request.urlopen(f"{url}/v1/models", timeout=5):
            return True
        time.sleep(0.1)
    return False
