"""One measurement: a server of its own is started, asked by `twinfer bench` in another process, and ended."""

from __future__ import annotations

from typing import Any

from benchmarks.measuring.footprint import of_children
from benchmarks.measuring.generator import bench
from benchmarks.measuring.quiet import watch_others
from benchmarks.measuring.serving import Launch, MeasureError, serving

KEPT = (
    *("completed", "failed", "refused", "errors", "duration_s", "req_s", "out_tok_s", "in_tok_s"),
    *("goodput_req_s", "ttft_ms", "tpot_ms", "itl_ms", "input_tokens", "output_tokens", "cached_share"),
    "client_cpu",
)
BESIDE = ("others", "memory_mib")
"""What is measured here."""


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
    return {**verdict, **figures, **{name: report[name] for name in BESIDE}}


def one_by_one(launch: Launch, ask: list[str]) -> dict[str, Any]:
    """The figures of requests one after another to a fresh server.

    Raises:
        MeasureError: no server, no report, or not every request was answered.
    """
    report = _bench(launch, "serve", ["--concurrency", "1", "--no-progress", *ask])
    if report["failed"] or report["refused"]:
        raise MeasureError(f"{launch.name}: not every request was answered: {report['errors']}")
    return {name: report[name] for name in (*KEPT, *BESIDE)}


def _bench(launch: Launch, what: str, options: list[str]) -> dict[str, Any]:
    """The report of a `twinfer bench` command, and beside it what it does not know.

    That is how many cores others kept busy meanwhile, and the server's memory in the end.
    """
    others = watch_others()
    with serving(launch) as url:
        try:
            report = bench(url, what, options)
            memory = of_children()
        except MeasureError as error:
            raise MeasureError(f"{launch.name}: {error}") from None
    return {**report, "others": round(others(), 3), "memory_mib": memory}
