"""The options that `twinfer bench serve` and `twinfer bench goodput` share, and what becomes of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from twinfer.errors import ConfigError

if TYPE_CHECKING:
    from twinfer.bench.serve.measures import Slo
    from twinfer.bench.serve.run import Server
    from twinfer.bench.serve.workload import Workload

SERVER = "Server"
REQUESTS = "Requests"
LOAD = "Load"
REPORT = "Targets and report"

Url = Annotated[str, typer.Option(help="Of the server, with or without /v1.", rich_help_panel=SERVER)]
Model = Annotated[
    str | None,
    typer.Option(help="Name to ask for.", show_default="the first it lists", rich_help_panel=SERVER),
]
Chat = Annotated[
    bool,
    typer.Option(
        "--chat",
        help="Send texts to /v1/chat/completions, rather than token ids to /v1/completions.",
        rich_help_panel=SERVER,
    ),
]
ApiKey = Annotated[
    str | None,
    typer.Option(help="Sent as a bearer token.", envvar="OPENAI_API_KEY", rich_help_panel=SERVER),
]
Timeout = Annotated[
    float, typer.Option(help="Seconds after which a request has failed.", rich_help_panel=SERVER)
]
Input = Annotated[
    str,
    typer.Option(
        "--input",
        help="Tokens of prompts: 256, uniform:128-512, or lognormal:256,0.8 (median, sigma).",
        rich_help_panel=REQUESTS,
    ),
]
Output = Annotated[
    str, typer.Option("--output", help="Tokens of answers, likewise.", rich_help_panel=REQUESTS)
]
Trace = Annotated[
    str | None,
    typer.Option(
        help="Lengths and shared prefixes from azure-conv, azure-code, mooncake, or a file.",
        show_default="none",
        rich_help_panel=REQUESTS,
    ),
]
LengthScale = Annotated[
    float, typer.Option(help="Multiplies all lengths; 0.5 halves them.", rich_help_panel=REQUESTS)
]
MaxLen = Annotated[
    int | None,
    typer.Option(
        help="Tokens of prompt and answer together; longer ones are cut.",
        show_default="the server's, where it tells",
        rich_help_panel=REQUESTS,
    ),
]
IgnoreEos = Annotated[
    bool | None,
    typer.Option(
        "--ignore-eos/--no-ignore-eos",
        help="Ask for answers of full length.",
        show_default="where the server can",
        rich_help_panel=REQUESTS,
    ),
]
Temperature = Annotated[float, typer.Option(help="0 is greedy.", rich_help_panel=REQUESTS)]
Seed = Annotated[
    int,
    typer.Option(help="Of arrivals, lengths and contents.", rich_help_panel=REQUESTS),
]
Burstiness = Annotated[
    float,
    typer.Option(help="Shape of the gaps: 1 for Poisson, less is burstier.", rich_help_panel=LOAD),
]
Warmup = Annotated[int, typer.Option(help="Requests before, not counted.", rich_help_panel=LOAD)]
SloTtft = Annotated[float | None, typer.Option(help="Target for TTFT, in seconds.", rich_help_panel=REPORT)]
SloTpot = Annotated[float | None, typer.Option(help="Target for TPOT, in seconds.", rich_help_panel=REPORT)]
Json = Annotated[
    Path | None,
    typer.Option("--json", help="A file to write the JSON line to as well.", rich_help_panel=REPORT),
]
Progress = Annotated[
    bool | None,
    typer.Option(
        "--progress/--no-progress",
        help="Show a progress bar.",
        show_default="in a terminal",
        rich_help_panel=REPORT,
    ),
]


def server_from(arguments: dict[str, Any]) -> Server:
    """Which server a command's arguments name, and how to ask it.

    Raises:
        ConfigError: one is out of range.
    """
    from twinfer.bench.serve import address
    from twinfer.bench.serve.run import Server

    if not arguments["timeout"] > 0:
        raise ConfigError(f"timeout must be over 0, not {arguments['timeout']:g}")
    if not 0 <= arguments["temperature"] < float("inf"):
        raise ConfigError(f"temperature must be at least 0, not {arguments['temperature']:g}")
    if arguments["warmup"] < 0:
        raise ConfigError(f"warmup must be at least 0, not {arguments['warmup']}")
    names = ("model", "chat", "ignore_eos", "temperature", "timeout", "api_key")
    return Server(address.parse(arguments["url"]), **{name: arguments[name] for name in names})


def workload_from(arguments: dict[str, Any]) -> Workload:
    """What a command's arguments say to ask for.

    Raises:
        ConfigError: one is out of range, or the trace cannot be read.
    """
    from twinfer.bench.serve.workload import workload

    return workload(
        arguments["prompt"],
        arguments["answer"],
        arguments["trace"],
        length_scale=arguments["length_scale"],
        max_len=arguments["max_len"],
        seed=arguments["seed"],
    )


def slo_from(arguments: dict[str, Any]) -> Slo:
    """A command's targets.

    Raises:
        ConfigError: one is not over 0.
    """
    from twinfer.bench.serve.measures import Slo

    for name in ("slo_ttft", "slo_tpot"):
        if arguments[name] is not None and not arguments[name] > 0:
            raise ConfigError(f"{name.replace('_', '-')} must be over 0 seconds, not {arguments[name]:g}")
    return Slo(arguments["slo_ttft"], arguments["slo_tpot"])


def check_writable(path: Path | None) -> None:
    """Raises ConfigError where a report could not be written in the end."""
    if path is None:
        return
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise ConfigError(f"cannot write {path}: it is no file in a folder that exists")
