"""`twinfer info`: the machine, the instruction set picked, and what a model needs."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

from rich.console import Console
from rich.padding import Padding
from rich.table import Table

from twinfer.cli.notices import notice
from twinfer.cluster.cores import usable_cores
from twinfer.cluster.memory import free_memory
from twinfer.config import DEFAULT_POOL_BYTES
from twinfer.kv.layout import KV_DTYPES, Layout
from twinfer.model.checkpoint import Checkpoint
from twinfer.model.load import load
from twinfer.model.pack import resolve_precision
from twinfer.model.resolve import resolve

Facts = list[tuple[str, str]]


def info(model: str | None) -> None:
    """Print it.

    Raises:
        ModelError: the model cannot be had or read.
    """
    checkpoint = load(resolve(model, notice))
    console = Console(highlight=False)
    _show(console, "Machine", machine_facts())
    _show(console, "Model", model_facts(checkpoint))
    _show(console, "KV cache", kv_facts(checkpoint))


def machine_facts() -> Facts:
    """Processor, cores, memory, and instruction sets."""
    cores = usable_cores()
    return [
        ("processor", _processor(Path("/proc/cpuinfo"))),
        ("cores", f"{len(cores)} usable of {os.cpu_count() or len(cores)}"),
        ("memory", f"{gib(os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES'))}"),
        ("free memory", gib(free_memory())),
        *_instruction_sets(),
    ]


def model_facts(checkpoint: Checkpoint) -> Facts:
    """Sizes, parameters, and how the weights are stored and computed."""
    model = checkpoint.description
    parameters = sum(rows * columns for rows, columns in (t.shape for t in checkpoint.tensors.values()))
    stored = sum(tensor.data.nbytes for tensor in checkpoint.tensors.values())
    kinds = Counter(tensor.kind for tensor in checkpoint.tensors.values())
    return [
        ("name", model.name),
        ("file", str(checkpoint.path)),
        ("layers", f"{model.layers} of {model.hidden}, feed-forward {model.ffn}"),
        ("attention", f"{model.heads} heads over {model.kv_heads} of keys and values, {model.head_dim} each"),
        ("vocabulary", f"{model.vocab} tokens" + (", output tied to it" if model.tied else "")),
        ("context", f"{model.context_length} tokens"),
        ("parameters", f"{parameters / 1e6:.1f} million in {stored / (1 << 20):.0f} MiB"),
        ("stored as", ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())),
        ("computed in", f"{resolve_precision(checkpoint, 'auto')}, unless set with --*-precision"),
    ]


def kv_facts(checkpoint: Checkpoint) -> Facts:
    """Bytes per token of each type, and the pool that `serve` takes by default."""
    model = checkpoint.description
    pool = min(DEFAULT_POOL_BYTES, int(free_memory() * 0.9))
    facts: Facts = []
    for dtype in KV_DTYPES:
        size = Layout(model.layers, model.kv_heads, model.head_dim, dtype).token_bytes
        facts.append((dtype, f"{size} bytes a token, {pool // size} tokens in the default pool"))
    return [*facts, ("default pool", f"{pool / (1 << 20):.0f} MiB")]


def gib(size: int) -> str:
    return f"{size / (1 << 30):.1f} GiB"


def _instruction_sets() -> Facts:
    try:
        from twinfer._native import isas
    except ImportError:
        return [("kernels", "not built")]
    available = isas()
    forced = os.environ.get("TWINFER_ISA")
    picked = f"{forced} (set by TWINFER_ISA)" if forced else available[0]
    return [("instruction set", picked), ("available", ", ".join(available))]


def _processor(cpuinfo: Path) -> str:
    try:
        lines = cpuinfo.read_text().splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, os.uname().machine)


def _show(console: Console, title: str, facts: Facts) -> None:
    table = Table.grid(padding=(0, 2))
    for name, value in facts:
        table.add_row(f"[dim]{name}[/]", value)
    console.print(f"\n  [bold]{title}[/]")
    console.print(Padding(table, (0, 0, 0, 2)))
