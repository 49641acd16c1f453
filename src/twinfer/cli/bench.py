"""`twinfer bench`: how fast an engine is on this machine, or a server behind its URL."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from twinfer.cli import bench_load, options

app = typer.Typer(help="Measure an engine on this machine, or a server by its URL.", no_args_is_help=True)


@app.callback()
def root() -> None:
    """Measure an engine on this machine, or a server by its URL."""


@app.command()
def engine(
    model: options.Model = None,
    threads: Annotated[
        int | None, typer.Option(help="Cores to compute on.", show_default="all usable ones")
    ] = None,
    prefill: Annotated[
        str, typer.Option(help="Prompts to compute, number x tokens; empty for none.")
    ] = "8x512,4x2048",
    decode: Annotated[str, typer.Option(help="Batches to write answers in; empty for none.")] = "1,4,16,64",
    context: Annotated[int, typer.Option(help="Tokens before the answers.")] = 256,
    precision: Annotated[str, typer.Option(help="Of weights: auto, f32, bf16, int8, int4.")] = "auto",
    kv_dtype: options.KvDtype = "auto",
    isa: Annotated[
        str | None,
        typer.Option(help="Instruction set: avx512, avx2, generic.", show_default="the best one here"),
    ] = None,
    repeats: Annotated[int, typer.Option(help="Of each prefill; the median counts.")] = 5,
    steps: Annotated[int, typer.Option(help="Of each decode, likewise.")] = 32,
    seed: Annotated[int, typer.Option(help="Of the random prompts.")] = 0,
    json: Annotated[
        Path | None, typer.Option("--json", help="A file to write the JSON line to as well.")
    ] = None,
) -> None:
    """Measure one engine, without HTTP: tokens a second, step times, and the share of the machine's limit.

    The last line is the report in JSON.
    """
    from rich.console import Console

    from twinfer.bench.engine import Options, run
    from twinfer.bench.report import as_json
    from twinfer.bench.shapes import parse_counts, parse_prompts
    from twinfer.bench.tables import show
    from twinfer.cli.notices import notice
    from twinfer.cluster.cores import usable_cores
    from twinfer.model.build import choose_isa
    from twinfer.model.load import load
    from twinfer.model.resolve import resolve

    cores = usable_cores()
    wanted = Options(
        threads=len(cores) if threads is None else threads,
        isa=choose_isa(isa),
        prefill=parse_prompts(prefill),
        decode=parse_counts(decode),
        context=context,
        precision=precision,
        kv_dtype=kv_dtype,
        repeats=repeats,
        steps=steps,
        seed=seed,
    )
    if json is not None:
        _check_writable(json)
    report = run(wanted, load(resolve(model, notice)), cores, notice)
    show(Console(highlight=False), report)
    print(as_json(report))
    if json is not None:
        json.write_text(as_json(report) + "\n")


def _check_writable(file: Path) -> None:
    """Find out before minutes of measuring, and not after."""
    from twinfer.errors import ConfigError

    try:
        file.touch()
    except OSError as error:
        raise ConfigError(f"cannot write '{file}': {error.strerror}") from None


app.command()(bench_load.serve)
app.command()(bench_load.goodput)
