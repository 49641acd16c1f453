"""`twinfer bench goodput`."""

from __future__ import annotations

from typing import Any

import uvloop
from rich.console import Console

from twinfer.bench.serve import goodput as searches
from twinfer.bench.serve import report, run, search, tables
from twinfer.bench.serve.goodput import GoodputReport, Probing
from twinfer.bench.serve.search import Search
from twinfer.cli.bench_options import check_writable, server_from, slo_from, workload_from
from twinfer.cli.bench_show import finish, or_exit, progress_bar
from twinfer.cli.notices import notice


def goodput(arguments: dict[str, Any]) -> None:
    """Search as the command's arguments say, and print every probe and the report.

    Raises:
        ConfigError: an argument is out of range.
    """
    server, work = server_from(arguments), workload_from(arguments)
    probing = searches.checked(
        Probing(
            slo=slo_from(arguments),
            attainment=arguments["attainment"],
            seconds=arguments["seconds"],
            least_requests=arguments["min_requests"],
            burstiness=arguments["burstiness"],
        )
    )
    searching = search.checked(
        Search(
            start=arguments["start_rate"],
            least=arguments["min_rate"],
            most=arguments["max_rate"],
            tolerance=arguments["tolerance"],
        )
    )
    check_writable(arguments["json"])
    console = Console(highlight=False)

    async def find() -> GoodputReport:
        prepared = await run.prepare(server, work, notice)
        await run.warm_up(prepared, arguments["warmup"])
        load = f"{probing.seconds:g} s of arrivals at each rate"
        facts = run.facts(prepared, load, run.described(work, arguments["trace"]))
        tables.show_facts(console, facts)
        return await searches.find(
            prepared,
            probing,
            searching,
            facts,
            bar=lambda rate, requests: progress_bar(f"{rate:g} req/s", requests, arguments["progress"]),
            on_probe=lambda probe: tables.show_probe(console, probe),
            say=notice,
        )

    found = or_exit(lambda: uvloop.run(find()))
    tables.show_goodput(console, found)
    finish(report.as_json(found), arguments["json"])
