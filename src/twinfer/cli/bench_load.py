"""The commands `twinfer bench serve` and `twinfer bench goodput`: measuring a server by its URL."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from twinfer.cli import bench_options as options

Option = tuple[str, Any, Any]
"""An option's name as an argument, its annotated type, and its default."""

SERVER: tuple[Option, ...] = (
    ("url", options.Url, "http://127.0.0.1:8000"),
    ("model", options.Model, None),
    ("chat", options.Chat, False),
    ("api_key", options.ApiKey, None),
    ("timeout", options.Timeout, 600.0),
)
REQUESTS: tuple[Option, ...] = (
    ("prompt", options.Input, "256"),
    ("answer", options.Output, "128"),
    ("trace", options.Trace, None),
    ("length_scale", options.LengthScale, 1.0),
    ("max_len", options.MaxLen, None),
    ("ignore_eos", options.IgnoreEos, None),
    ("temperature", options.Temperature, 0.0),
    ("seed", options.Seed, 0),
)
LOAD: tuple[Option, ...] = (
    ("burstiness", options.Burstiness, 1.0),
    ("warmup", options.Warmup, 4),
)
REPORT: tuple[Option, ...] = (
    ("slo_ttft", options.SloTtft, None),
    ("slo_tpot", options.SloTpot, None),
    ("json", options.Json, None),
    ("progress", options.Progress, None),
)


def _in(panel: str, kind: Any, help: str, **more: Any) -> Any:
    return Annotated[kind, typer.Option(help=help, rich_help_panel=panel, **more)]


SENDING: tuple[Option, ...] = (
    ("rate", _in(options.LOAD, float | None, "Open loop: requests a second; inf for all at once."), None),
    (
        "time_scale",
        _in(options.LOAD, float | None, "Open loop: when the trace says, its times multiplied by this."),
        None,
    ),
    (
        "concurrency",
        _in(options.LOAD, int | None, "Closed loop: requests at a time.", show_default="1"),
        None,
    ),
    (
        "requests",
        _in(options.LOAD, int | None, "No more after so many.", show_default="100, without --duration"),
        None,
    ),
    ("duration", _in(options.LOAD, float | None, "No more after so many seconds."), None),
)
PLOT: Option = ("plot", _in(options.REPORT, Path | None, "A picture to draw: .png, .svg or .pdf."), None)
PROBING: tuple[Option, ...] = (
    ("seconds", _in(options.LOAD, float, "Of arrivals at each rate."), 60.0),
    ("min_requests", _in(options.LOAD, int, "At each rate, even if that takes longer."), 30),
    ("start_rate", _in(options.LOAD, float, "Requests a second to try first."), 1.0),
    ("min_rate", _in(options.LOAD, float, "Nothing lower is tried."), 0.05),
    ("max_rate", _in(options.LOAD, float, "Nothing higher is tried."), 1000.0),
    ("tolerance", _in(options.LOAD, float, "How close to end: a rate this much higher has failed."), 0.05),
)
ATTAINMENT: Option = (
    "attainment",
    _in(options.REPORT, float, "Share of the requests that must meet both."),
    0.9,
)


def with_options(*chosen: Option) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Makes a function of keyword arguments a command with these options, as if its signature named them."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        parameters = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
            for name, kind, default in chosen
        ]
        command.__annotations__ = {name: kind for name, kind, _ in chosen}
        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return command

    return decorate


@with_options(*SERVER, *REQUESTS, *SENDING, *LOAD, *REPORT, PLOT)
def serve(**arguments: Any) -> None:
    """Measure a server with OpenAI's API: latencies, throughput, goodput.

    The last line is the report in JSON.
    """
    from twinfer.cli.bench_serve import serve

    serve(arguments)


@with_options(*SERVER, *REQUESTS, *PROBING, *LOAD, *REPORT, ATTAINMENT)
def goodput(**arguments: Any) -> None:
    """Find the highest rate at which a server keeps its targets.

    Rates are doubled or halved, then bisected; the same requests come in the same order at each.
    The last line is the report in JSON.
    """
    from twinfer.cli.bench_goodput import goodput

    goodput(arguments)
