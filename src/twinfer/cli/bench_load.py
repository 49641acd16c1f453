"""The commands `twinfer bench serve` and `twinfer bench goodput`: measuring a server by its URL."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from twinfer.cli import bench_options as options
from twinfer.cli.bench_options import LOAD, REPORT


def serve(
    *,
    url: options.Url = "http://127.0.0.1:8000",
    model: options.Model = None,
    chat: options.Chat = False,
    api_key: options.ApiKey = None,
    timeout: options.Timeout = 600.0,
    prompt: options.Input = "256",
    answer: options.Output = "128",
    trace: options.Trace = None,
    length_scale: options.LengthScale = 1.0,
    max_len: options.MaxLen = None,
    ignore_eos: options.IgnoreEos = None,
    temperature: options.Temperature = 0.0,
    seed: options.Seed = 0,
    rate: Annotated[
        float | None,
        typer.Option(help="Open loop: requests a second; inf for all at once.", rich_help_panel=LOAD),
    ] = None,
    time_scale: Annotated[
        float | None,
        typer.Option(
            help="Open loop: when the trace says, its times multiplied by this.", rich_help_panel=LOAD
        ),
    ] = None,
    concurrency: Annotated[
        int | None,
        typer.Option(help="Closed loop: requests at a time.", show_default="1", rich_help_panel=LOAD),
    ] = None,
    requests: Annotated[
        int | None,
        typer.Option(
            help="No more after so many.", show_default="100, without --duration", rich_help_panel=LOAD
        ),
    ] = None,
    duration: Annotated[
        float | None, typer.Option(help="No more after so many seconds.", rich_help_panel=LOAD)
    ] = None,
    burstiness: options.Burstiness = 1.0,
    warmup: options.Warmup = 4,
    slo_ttft: options.SloTtft = None,
    slo_tpot: options.SloTpot = None,
    json: options.Json = None,
    progress: options.Progress = None,
    plot: Annotated[
        Path | None, typer.Option(help="A picture to draw: .png, .svg or .pdf.", rich_help_panel=REPORT)
    ] = None,
) -> None:
    """Measure a server with OpenAI's API: latencies, throughput, goodput.

    The last line is the report in JSON.
    """
    arguments = dict(locals())
    from twinfer.cli.bench_serve import serve

    serve(arguments)


def goodput(
    *,
    url: options.Url = "http://127.0.0.1:8000",
    model: options.Model = None,
    chat: options.Chat = False,
    api_key: options.ApiKey = None,
    timeout: options.Timeout = 600.0,
    prompt: options.Input = "256",
    answer: options.Output = "128",
    trace: options.Trace = None,
    length_scale: options.LengthScale = 1.0,
    max_len: options.MaxLen = None,
    ignore_eos: options.IgnoreEos = None,
    temperature: options.Temperature = 0.0,
    seed: options.Seed = 0,
    seconds: Annotated[float, typer.Option(help="Of arrivals at each rate.", rich_help_panel=LOAD)] = 60.0,
    min_requests: Annotated[
        int, typer.Option(help="At each rate, even if that takes longer.", rich_help_panel=LOAD)
    ] = 30,
    start_rate: Annotated[
        float, typer.Option(help="Requests a second to try first.", rich_help_panel=LOAD)
    ] = 1.0,
    min_rate: Annotated[float, typer.Option(help="Nothing lower is tried.", rich_help_panel=LOAD)] = 0.05,
    max_rate: Annotated[float, typer.Option(help="Nothing higher is tried.", rich_help_panel=LOAD)] = 1000.0,
    tolerance: Annotated[
        float,
        typer.Option(help="How close to end: a rate this much higher has failed.", rich_help_panel=LOAD),
    ] = 0.05,
    burstiness: options.Burstiness = 1.0,
    warmup: options.Warmup = 4,
    slo_ttft: options.SloTtft = None,
    slo_tpot: options.SloTpot = None,
    json: options.Json = None,
    progress: options.Progress = None,
    attainment: Annotated[
        float,
        typer.Option(help="Share of the requests that must meet both.", rich_help_panel=REPORT),
    ] = 0.9,
) -> None:
    """Find the highest rate at which a server keeps its targets.

    Rates are doubled or halved, then bisected; the same requests come in the same order at each.
    The last line is the report in JSON.
    """
    arguments = dict(locals())
    from twinfer.cli.bench_goodput import goodput

    goodput(arguments)
