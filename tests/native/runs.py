"""Running a native decoder in the tests: build one, feed it sequences in any chunks and batches."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from tests.native.matrices import aligned
from twinfer import _native
from twinfer.kv.layout import Layout
from twinfer.model.build import build_decoder
from twinfer.model.checkpoint import Checkpoint
from twinfer.model.description import Description
from twinfer.model.pack import pack

PAGE = 16


class Run(msgspec.Struct):
    """A decoder with a pool whose unused memory is full of NaNs."""

    decoder: _native.Decoder
    team: _native.Team
    pages: int


def build(
    checkpoint: Checkpoint,
    precision: str = "auto",
    kv_dtype: str = "bf16",
    isa: str | None = None,
    threads: int = 2,
    pages: int = 128,
) -> Run:
    plan = pack(checkpoint, precision)
    weights = aligned(plan.nbytes)
    plan.write(weights)
    team = _native.Team([-1] * threads)
    pool = aligned(pages * page_bytes(checkpoint.description, kv_dtype))
    pool[:] = 0xFF
    return Run(build_decoder(plan.layout, weights, pool, team, isa, kv_dtype), team, pages)


def page_bytes(d: Description, kv_dtype: str) -> int:
    return Layout(d.layers, d.kv_heads, d.head_dim, kv_dtype).page_bytes


class Piece(msgspec.Struct):
    """Some tokens of one sequence, from position `start` on; `pages` is the sequence's whole table."""

    tokens: Sequence[int]
    start: int
    pages: Sequence[int]


def arrays(pieces: Sequence[Piece]) -> tuple[NDArray[np.int32], ...]:
    """tokens, rows, starts and page tables of a batch; unused table entries are out of range."""
    tables = np.full((len(pieces), max(len(piece.pages) for piece in pieces)), -7, np.int32)
    for table, piece in zip(tables, pieces, strict=True):
        table[: len(piece.pages)] = piece.pages
    tokens = np.concatenate([np.asarray(piece.tokens, np.int32) for piece in pieces])
    rows = np.array([len(piece.tokens) for piece in pieces], np.int32)
    return tokens, rows, np.array([piece.start for piece in pieces], np.int32), tables


def logits(run: Run, pieces: Sequence[Piece]) -> list[NDArray[np.float32]]:
    """Logits of every piece's tokens."""
    tokens, rows, starts, tables = arrays(pieces)
    return np.split(run.decoder.logits(tokens, rows, starts, tables), np.cumsum(rows)[:-1])


def tables(run: Run, lengths: Sequence[int], seed: int = 0) -> list[list[int]]:
    """A page table for every sequence, of pages in random order."""
    free = np.random.default_rng(seed).permutation(run.pages).tolist()
    return [[free.pop() for _ in range(-(-length // PAGE))] for length in lengths]


def forward(
    run: Run,
    pieces: Sequence[Piece],
    seeds: Sequence[int] | None = None,
    wanted: Sequence[bool] | None = None,
) -> NDArray[np.int32]:
    """The next token of every piece: greedy without seeds, else sampled at temperature 1."""
    n = len(pieces)
    return run.decoder.forward(
        *arrays(pieces),
        np.ones(n, np.bool_) if wanted is None else np.array(wanted, np.bool_),
        np.full(n, 0 if seeds is None else 1, np.float32),
        np.zeros(n, np.int32),
        np.ones(n, np.float32),
        np.zeros(n, np.float32),
        np.zeros(n, np.uint64) if seeds is None else np.array(seeds, np.uint64),
    )
