"""Single kernels beside the machine's limits, on one thread: products and attention with the model's shapes.

A row is the share of the bound that applies: arithmetic, at the measured peak of the instructions for it, or
what one core reads from memory, whichever takes longer. Kernels are called as the decoder calls them, their
memory lies as it does there, and the quickest of the repeats counts, in processor time: what others do
meanwhile is no matter of theirs.

    python -m benchmarks.kernels [--isa NAME] [--save]

`--save` keeps the figures in results/MACHINE/kernels.json and writes the table into docs/engines.md.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np

from benchmarks.measuring.decoders import arguments
from benchmarks.measuring.record import DOCS, described, fill, machine, save
from twinfer._native import time_attention, time_product
from twinfer.bench.ceiling import measure_ceiling
from twinfer.bench.rig import shared_memory
from twinfer.bench.roofline import Ceiling, pair_ops
from twinfer.cluster.cores import usable_cores
from twinfer.kv.layout import PAGE_TOKENS, Layout
from twinfer.model.build import choose_isa
from twinfer.model.checkpoint import Checkpoint
from twinfer.model.load import load
from twinfer.model.pack import pack
from twinfer.model.resolve import resolve
from twinfer.policy.pages import pages_for

ROWS = (16, 96)
CONTEXT, QUERIES = 2048, 16
ANSWERS = ((64, 264), (8, CONTEXT))
PRODUCTS = (
    ("4-bit", "int4", ("a layer",)),
    ("8-bit", "int8", ("a layer", "the output matrix")),
    ("bf16", "bf16", ("a layer",)),
    ("float32", "f32", ("a layer",)),
)


class Row(msgspec.Struct, frozen=True):
    """What was computed, in how many seconds; its operations, their peak, and the bytes read from memory."""

    kernel: str
    seconds: float
    operations: float
    peak: float
    nbytes: float = 0

    def share(self, ceiling: Ceiling) -> float:
        """Of the bound."""
        return max(self.operations / self.peak, self.nbytes / ceiling.read_gb_s / 1e9) / self.seconds

    def figures(self, ceiling: Ceiling) -> dict[str, Any]:
        """For the results."""
        return {
            "kernel": self.kernel,
            "gop_s": round(1e-9 * self.operations / self.seconds, 1),
            "gb_s": round(1e-9 * self.nbytes / self.seconds, 1),
            "share": round(self.share(ceiling), 3),
        }


def main() -> None:
    args = arguments(__doc__, threads=1)
    isa, checkpoint = choose_isa(args.isa), load(resolve(None, print))
    ceiling = measure_ceiling(usable_cores()[:1], isa)
    rows = []
    for row in [*products(checkpoint, isa, ceiling), *attention(checkpoint, isa, ceiling)]:
        rows.append(row.figures(ceiling))
        print(row_text(rows[-1]), flush=True)
    if args.save:
        where = machine()
        fill(DOCS / "engines.md", "kernels", table(rows, described(where), isa, ceiling), where)
        save("kernels", {"isa": isa, "ceiling": msgspec.to_builtins(ceiling), "rows": rows})


def products(checkpoint: Checkpoint, isa: str, ceiling: Ceiling) -> Iterator[Row]:
    """The products of the first layer, and of the output matrix, with weights in a precision."""
    random = np.random.default_rng(0)
    for name, precision, parts in PRODUCTS:
        plan = pack(checkpoint, precision)
        weights = shared_memory(plan.nbytes)
        plan.write(weights)
        for part, rows in itertools.product(parts, ROWS):
            seconds = operations = 0.0
            for matrix in matrices_of(plan.layout, part):
                x = random.standard_normal((rows, matrix["k"]), np.float32)
                seconds += time_product(isa, matrix, weights, x)
                operations += 2 * rows * matrix["n"] * matrix["k"]
            yield Row(f"{name} weights, {part}, {rows} rows", seconds, operations, ceiling.peak(precision))


def matrices_of(layout: dict[str, Any], part: str) -> list[dict[str, Any]]:
    """Those of the first layer, or the one of the output."""
    if part == "the output matrix":
        return [layout["output"]]
    layer = layout["layers"][0]
    return [*layer["qkv"], layer["out"], layer["gate_up"], layer["down"]]


def attention(checkpoint: Checkpoint, isa: str, ceiling: Ceiling) -> Iterator[Row]:
    """Of prompts, whose KV stays in cache from tile to tile, and of answers, whose KV comes from memory."""
    model = checkpoint.description
    heads = (model.heads, model.kv_heads, model.head_dim)
    for dtype in ("bf16", "int8"):
        one = Layout(1, model.kv_heads, model.head_dim, dtype)
        seconds = time_attention(isa, pool(one, 1, CONTEXT), dtype, *heads, 1, 1, CONTEXT, QUERIES)
        pairs = sum(CONTEXT - i for i in range(QUERIES))
        name = f"prefill, {dtype} KV, {QUERIES} queries at {CONTEXT} tokens"
        yield Row(name, seconds, pairs * pair_ops(model) / model.layers, ceiling.peak(dtype))
    for answers, context in ANSWERS:
        for dtype in ("bf16", "int8"):
            kv = Layout(model.layers, model.kv_heads, model.head_dim, dtype)
            memory = pool(kv, answers, context)
            seconds = time_attention(isa, memory, dtype, *heads, model.layers, answers, context, 1, 20)
            yield Row(
                f"decode, {dtype} KV, {answers} answers after {context} tokens",
                seconds,
                answers * context * pair_ops(model),
                ceiling.peak(dtype),
                answers * context * kv.token_bytes,
            )


def pool(kv: Layout, answers: int, context: int) -> Any:
    """Memory for the KV of so many answers."""
    return shared_memory(answers * pages_for(context, PAGE_TOKENS) * kv.page_bytes)


def row_text(row: dict[str, Any]) -> str:
    read = f"{row['gb_s']:.1f} GB/s" if row["gb_s"] else ""
    return f"| {row['kernel']} | {row['gop_s']:.0f} GOP/s | {read} | {row['share']:.0%} |"


def table(rows: list[dict[str, Any]], where: str, isa: str, ceiling: Ceiling) -> list[str]:
    """The lines in docs/engines.md."""
    peaks = f"{ceiling.int8_gops:.0f} GOP/s in 8 bits, {ceiling.bf16_gflops:.0f} in bf16, "
    peaks += f"{ceiling.f32_gflops:.0f} in float32, {ceiling.read_gb_s:.1f} GB/s read"
    return [
        f"{where}, {isa}, one thread. The machine's limits: {peaks}.",
        "",
        "| | arithmetic | memory | share of the bound |",
        "|---|---|---|---|",
        *map(row_text, rows),
    ]


if __name__ == "__main__":
    main()
