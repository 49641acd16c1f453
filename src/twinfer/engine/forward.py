"""From sequences to one call of the native module: the packed batch as arrays."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from twinfer._native import Decoder
from twinfer.engine.sequence import Sequence


def forward(decoder: Decoder, batch: list[tuple[Sequence, int]]) -> list[int]:
    """Compute the next `count` tokens of each `(sequence, count)`, and sample where none is left.

    Returns a token per sequence, -1 where its prompt is not done. The sequences do not change.
    """
    if not batch:
        return []
    tokens = np.concatenate([sequence.tokens[:count] for sequence, count in batch])
    rows = np.array([count for _, count in batch], np.int32)
    starts = np.array([sequence.computed for sequence, _ in batch], np.int32)
    sample = np.array([count == len(sequence.tokens) for sequence, count in batch], np.bool_)
    how = [sequence.task.sampling for sequence, _ in batch]
    sampled = decoder.forward(
        tokens,
        rows,
        starts,
        _tables([sequence for sequence, _ in batch]),
        sample,
        np.array([s.temperature for s in how], np.float32),
        np.array([s.top_k for s in how], np.int32),
        np.array([s.top_p for s in how], np.float32),
        np.array([s.min_p for s in how], np.float32),
        np.array([s.seed for s in how], np.uint64),
    )
    return [int(token) for token in sampled]


def _tables(sequences: list[Sequence]) -> NDArray[np.int32]:
    """Page tables `[sequence, page]`, as wide as the longest, filled up with page 0."""
    width = max(sequence.held for sequence in sequences)
    tables = np.zeros((len(sequences), width), np.int32)
    for row, sequence in zip(tables, sequences, strict=True):
        row[: sequence.held] = sequence.granted
    return tables
