"""Precision against likelihood and speed, for every precision of weights and type of KV.

Likelihood is the mean negative log-likelihood of a text, compared with that of an independent float32
implementation (tests/golden). Speed is that of the decoders alone: a prompt of 512 tokens, and decode steps
after 256 tokens of context.

    python -m benchmarks.precision [--threads 1] [--isa NAME] [--save]

`--save` keeps the figures in results/MACHINE/precision.json and writes the table into docs/precision.md.
"""

from __future__ import annotations

import json
import statistics
import time
from typing import Any

import numpy as np

from benchmarks.measuring.decoders import arguments, arrange, log_probabilities
from benchmarks.measuring.record import DOCS, ROOT, fill, machine, save
from twinfer._native import Decoder
from twinfer.config import PRECISIONS
from twinfer.kv.layout import KV_DTYPES
from twinfer.model.build import choose_isa
from twinfer.model.checkpoint import Checkpoint
from twinfer.model.load import load
from twinfer.model.resolve import resolve

PROMPT, CONTEXT, BATCHES, REPEATS = 512, 256, (1, 16), 5


def main() -> None:
    args = arguments(__doc__, threads=1)
    checkpoint = load(resolve(None, print))
    text = json.loads((ROOT / "tests/golden/nll.json").read_text())["texts"]["gpl3"]
    isa = choose_isa(args.isa)
    rows = []
    for precision in ("f32", "bf16", "int8", "int4", "auto"):
        assert precision in PRECISIONS
        for kv_dtype in KV_DTYPES:
            rows.append(measure(checkpoint, text, precision, kv_dtype, args.threads, isa))
            print(row_text(rows[-1]), flush=True)
    if args.save:
        write_table(rows, args.threads, isa)
        save("precision", {"threads": args.threads, "isa": isa, "rows": rows})


def measure(
    checkpoint: Checkpoint, text: dict[str, Any], precision: str, kv_dtype: str, threads: int, isa: str
) -> dict[str, Any]:
    room = {"sequences": max(BATCHES), "tokens": len(text["ids"])}
    decoder, shape, tables = arrange(checkpoint, precision, kv_dtype, threads=threads, isa=isa, **room)
    nll = mean_nll(decoder, text["ids"], tables[:1])
    row = {
        "precision": precision,
        "kv_dtype": kv_dtype,
        "nll": round(nll, 5),
        "nll_change": round(nll / text["mean_nll"] - 1, 6),
        "weights_mib": round(shape.plans[shape.precisions[0]].nbytes / (1 << 20), 1),
        "kv_bytes_per_token": shape.kv.token_bytes,
        "prefill_tok_s": round(PROMPT / seconds(decoder, text["ids"][:PROMPT], 0, tables[:1])),
    }
    for batch in BATCHES:
        forward(decoder, text["ids"][:CONTEXT] * batch, CONTEXT, 0, tables[:batch])
        step = seconds(decoder, text["ids"][CONTEXT : CONTEXT + 1] * batch, CONTEXT, tables[:batch])
        row[f"decode_{batch}_tok_s"] = round(batch / step)
    return row


def mean_nll(decoder: Decoder, ids: list[int], table: Any) -> float:
    """Mean negative log-likelihood of the text's tokens but the first, natural logarithm."""
    rows = log_probabilities(decoder, ids[:-1], table)
    return float(-np.mean(rows[np.arange(len(rows)), ids[1:]]))


def seconds(decoder: Decoder, tokens: list[int], start: int, tables: Any) -> float:
    """Median seconds of a step."""
    times = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        forward(decoder, tokens, len(tokens) // len(tables), start, tables)
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def forward(decoder: Decoder, tokens: list[int], rows: int, start: int, tables: Any) -> None:
    """One greedy step of `rows` tokens for each table."""
    n = len(tables)
    decoder.forward(
        np.array(tokens, np.int32),
        np.full(n, rows, np.int32),
        np.full(n, start, np.int32),
        np.ascontiguousarray(tables),
        np.ones(n, np.bool_),
        np.zeros(n, np.float32),
        np.zeros(n, np.int32),
        np.ones(n, np.float32),
        np.zeros(n, np.float32),
        np.zeros(n, np.uint64),
    )


def row_text(row: dict[str, Any]) -> str:
    return (
        "| `{precision}` | `{kv_dtype}` | {nll_change:+.2%} | {weights_mib:.0f} MiB | {kv_bytes_per_token}"
        " | {prefill_tok_s} | {decode_1_tok_s} | {decode_16_tok_s} |"
    ).format(**row)


def write_table(rows: list[dict[str, Any]], threads: int, isa: str) -> None:
    """Replace the table in docs/precision.md."""
    where = machine()
    lines = [
        f"{where['cpu']}, {isa}, {threads} thread{'s' if threads > 1 else ''},"
        f" commit {where['commit']}, {where['date']}.",
        "",
        "| weights | KV | likelihood | packed | KV bytes a token | prefill | decode, batch 1 | batch 16 |",
        "|---|---|---|---|---|---|---|---|",
        *map(row_text, rows),
    ]
    fill(DOCS / "precision.md", "precision", lines, where)


if __name__ == "__main__":
    main()
