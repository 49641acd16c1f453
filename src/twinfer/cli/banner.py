"""What `twinfer serve` says when it is ready."""

from __future__ import annotations

import json
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table

from twinfer.serving import Serving

QUESTION = {"messages": [{"role": "user", "content": "What is the capital of France?"}], "temperature": 0}


def print_banner(console: Console, service: Serving, address: str) -> None:
    """Address, model, engines, pool, and a line to try."""
    facts = Table.grid(padding=(0, 2))
    facts.add_row("[dim]address[/]", f"[bold green]{address}[/]")
    facts.add_row("[dim]model[/]", _model(service))
    facts.add_row("[dim]KV pool[/]", _pool(service))
    console.print()
    console.print("  [bold]Twinfer[/] is ready")
    console.print()
    console.print(_indented(facts))
    console.print(_engines(list(service.router.engines())))
    console.print("  [dim]Try it:[/]")
    line = f"curl {address}/v1/chat/completions -d '{json.dumps(QUESTION)}'"
    console.print(f"  {line}", soft_wrap=True, markup=False, highlight=False)
    console.print("  [dim]Ctrl-C stops the server.[/]")


def _model(service: Serving) -> str:
    prefill, decode = service.precisions
    precision = prefill if prefill == decode else f"{prefill} in prefill, {decode} in decode"
    return (
        f"{escape(service.model_id)}  [dim]{precision}, {service.router.max_model_len} tokens of context[/]"
    )


def _pool(service: Serving) -> str:
    size = f"{service.pool_bytes / (1 << 20):.0f} MiB"
    return f"{size}  [dim]{service.pool_tokens} tokens in {service.kv_layout.dtype}[/]"


def _engines(engines: list[dict[str, Any]]) -> Table:
    table = Table("engine", "role", "pid", "cores", box=SIMPLE_HEAD, header_style="dim")
    for engine in engines:
        cores = ", ".join(map(str, engine["cores"]))
        table.add_row(str(engine["id"]), f"[cyan]{engine['role']}[/]", str(engine["pid"]), cores)
    return table


def _indented(table: Table) -> Padding:
    return Padding(table, (0, 0, 0, 2))
