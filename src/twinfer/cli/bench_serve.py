"""`twinfer bench serve`."""

from __future__ import annotations

from typing import Any

import typer
import uvloop
from rich.console import Console

from twinfer.bench.serve import load as loads
from twinfer.bench.serve import plot, report, run, tables
from twinfer.bench.serve.load import Load
from twinfer.bench.serve.report import Facts, Run
from twinfer.cli.bench_options import check_writable, server_from, slo_from, workload_from
from twinfer.cli.bench_show import finish, or_exit, progress_bar
from twinfer.cli.notices import notice


def serve(arguments: dict[str, Any]) -> None:
    """Measure as the command's arguments say, and print the report.

    Raises:
        ConfigError: an argument is out of range.
    """
    server, work, slo = server_from(arguments), workload_from(arguments), slo_from(arguments)
    load = loads.checked(
        Load(**{name: arguments[name] for name in Load.__struct_fields__}), work.trace is not None
    )
    check_writable(arguments["json"])
    check_writable(arguments["plot"])
    if arguments["plot"] is not None:
        plot.check(arguments["plot"])

    async def measure() -> tuple[Run, Facts]:
        prepared = await run.prepare(server, work, notice)
        await run.warm_up(prepared, arguments["warmup"])
        with progress_bar("", load.requests, arguments["progress"]) as bar:
            ended = await run.measure(prepared.asking, loads.plan(prepared.work, load), load, bar)
        return ended, run.facts(prepared, load.described(), run.described(work, arguments["trace"]))

    ended, facts = or_exit(lambda: uvloop.run(measure()))
    found = report.summarise(ended, slo, facts)
    tables.show(Console(highlight=False), found, report.reasons(ended.answers))
    if arguments["plot"] is not None:
        plot.draw(arguments["plot"], ended, found)
    finish(report.as_json(found), arguments["json"])
    if not found.completed:
        raise typer.Exit(1)
