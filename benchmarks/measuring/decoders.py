"""Decoders in one arrangement of precisions after the other, and what they say of a text."""

from __future__ import annotations

import argparse
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from twinfer._native import Decoder
from twinfer.bench.rig import build_rig
from twinfer.bench.shapes import page_tables
from twinfer.cluster.cores import usable_cores
from twinfer.config import Config
from twinfer.kv.layout import PAGE_TOKENS
from twinfer.model.checkpoint import Checkpoint
from twinfer.serving import Shape, decide


class Arrangement(NamedTuple):
    """A decoder for prompts, what it was made from, and the page tables [sequences, pages] of its pool."""

    decoder: Decoder
    shape: Shape
    tables: NDArray[np.int32]


def arguments(document: str | None, threads: int) -> argparse.Namespace:
    """`threads`, `isa` and `save` from the command line, with that many threads if it does not say."""
    parser = argparse.ArgumentParser(
        description=document, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--threads", type=int, default=threads)
    parser.add_argument("--isa", default=None, help="instruction set, the best by default")
    parser.add_argument("--save", action="store_true", help="keep the figures, and write them into docs")
    return parser.parse_args()


def arrange(
    checkpoint: Checkpoint,
    precision: str,
    kv_dtype: str,
    *,
    threads: int,
    isa: str,
    sequences: int,
    tokens: int,
) -> Arrangement:
    """With room for so many sequences of so many tokens."""
    cores = usable_cores()[:threads]
    config = Config.from_options(prefill_precision=precision, decode_precision=precision, kv_dtype=kv_dtype)
    shape = decide(config, checkpoint, cores)
    tables = np.array(page_tables(sequences, tokens, PAGE_TOKENS), np.int32)
    return Arrangement(build_rig(shape, cores, isa, tables.size).prefill, shape, tables)


def log_probabilities(
    decoder: Decoder, ids: list[int], table: NDArray[np.int32]
) -> NDArray[np.floating[Any]]:
    """Of each next token after each of `ids`: [tokens, vocabulary], natural logarithms."""
    whole = decoder.logits(
        np.array(ids, np.int32), np.array([len(ids)], np.int32), np.zeros(1, np.int32), table
    )
    rows = whole.astype(np.float64)
    rows -= rows.max(axis=1, keepdims=True)
    return rows - np.log(np.exp(rows).sum(axis=1, keepdims=True))
