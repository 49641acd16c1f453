"""The options that several commands share, and how they become a `Config`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from twinfer.config import Config
from twinfer.sampling import SamplingParams

ENGINES = "Engines"
MEMORY = "Precision and memory"
SAMPLING = "Sampling"

Model = Annotated[
    str | None,
    typer.Option(help="GGUF file, Hugging Face folder, or hub name.", show_default="smollm2"),
]
PrefillEngines = Annotated[int, typer.Option(help="Prefill engines.", rich_help_panel=ENGINES)]
DecodeEngines = Annotated[int, typer.Option(help="Decode engines.", rich_help_panel=ENGINES)]
Colocate = Annotated[
    bool,
    typer.Option(
        "--colocate",
        help="One mixed engine on all cores instead; short for --placement colocate.",
        rich_help_panel=ENGINES,
    ),
]
Placement = Annotated[
    str,
    typer.Option(
        help="Of prompts: auto lets a decode engine compute those it has sooner, always-disaggregate never, "
        "colocate has one mixed engine.",
        rich_help_panel=ENGINES,
    ),
]
PrefillChunk = Annotated[
    int,
    typer.Option(help="Prompt tokens computed in one step at most; 0 for off.", rich_help_panel=ENGINES),
]
MaxBatchSize = Annotated[
    int, typer.Option(help="Answers written in one step at most.", rich_help_panel=ENGINES)
]
TensorParallelSize = Annotated[
    int, typer.Option(help="Only 1 is supported, for now.", rich_help_panel=ENGINES)
]
PrefillPrecision = Annotated[
    str, typer.Option(help="Of prefill: auto, f32, bf16, int8, int4.", rich_help_panel=MEMORY)
]
DecodePrecision = Annotated[str, typer.Option(help="Of decode, likewise.", rich_help_panel=MEMORY)]
KvDtype = Annotated[
    str, typer.Option(help="Of keys and values: auto, f32, bf16, int8.", rich_help_panel=MEMORY)
]
KvPoolSize = Annotated[
    str | None,
    typer.Option(help="Such as 512MiB.", show_default="1GiB, if that much is free", rich_help_panel=MEMORY),
]
GpuMemoryUtilization = Annotated[
    float, typer.Option(help="Share of the free memory the pool may take.", rich_help_panel=MEMORY)
]
SloTtft = Annotated[
    float | None,
    typer.Option(
        help="Seconds to the first token; requests that would miss it are refused.",
        show_default="no target",
        rich_help_panel=ENGINES,
    ),
]
SloTpot = Annotated[
    float | None,
    typer.Option(
        help="Seconds between tokens; decode goes no faster while prompts wait.",
        show_default="no target",
        rich_help_panel=ENGINES,
    ),
]
Check = Annotated[
    bool,
    typer.Option(
        "--check",
        help="Verify after every event that no page and no request is lost; slow.",
        rich_help_panel=ENGINES,
    ),
]
PrefixCache = Annotated[
    bool,
    typer.Option(
        "--prefix-cache/--no-prefix-cache",
        help="Share KV among requests that begin alike; without, only the answers of one call do.",
        rich_help_panel=MEMORY,
    ),
]
MaxModelLen = Annotated[
    int | None,
    typer.Option(
        help="Prompt and answer tokens of a request.",
        show_default="what model and pool allow",
        rich_help_panel=MEMORY,
    ),
]
Seed = Annotated[
    int | None,
    typer.Option(
        help="Of requests that bring none.", show_default="a fresh one each", rich_help_panel=SAMPLING
    ),
]
MaxTokens = Annotated[
    int | None,
    typer.Option(help="Tokens of an answer at most.", show_default="no limit", rich_help_panel=SAMPLING),
]
Temperature = Annotated[float, typer.Option(help="0 is greedy.", rich_help_panel=SAMPLING)]
TopP = Annotated[float, typer.Option(help="Share of probability to pick from.", rich_help_panel=SAMPLING)]
TopK = Annotated[int, typer.Option(help="Tokens to pick from; 0 for all.", rich_help_panel=SAMPLING)]
MinP = Annotated[
    float, typer.Option(help="Least probability, relative to the likeliest.", rich_help_panel=SAMPLING)
]


def config_from(arguments: dict[str, Any]) -> Config:
    """A command's arguments as a config; those that are no options of it are left out.

    Raises:
        ConfigError: an option is out of range.
    """
    names = (*Config.__struct_fields__, "colocate")
    return Config.from_options(**{name: value for name, value in arguments.items() if name in names})


def params_from(arguments: dict[str, Any]) -> SamplingParams:
    """Those of a command's arguments that say how to generate.

    Raises:
        RequestError: one is out of range.
    """
    names = SamplingParams.__struct_fields__
    given: dict[str, Any] = {name: arguments[name] for name in names if arguments.get(name) is not None}
    given.setdefault("max_tokens", None)
    return SamplingParams(**given)
