"""What prompts consist of: numbers drawn from a hash, as token ids or as words.

Every token is a function of the seed, the salt, the block it is in, and its place there; so prompts that
share blocks share tokens, and nothing has to be remembered.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from twinfer.bench.serve.traces import BLOCK_TOKENS

TOKENS = (1_000, 30_000)
"""Ids drawn from, the last one excluded: plain text in every common vocabulary, no special token."""

WORDS = (
    *("time", "year", "people", "way", "day", "man", "thing", "woman", "life", "child", "world", "school"),
    *("state", "family", "group", "country", "problem", "hand", "part", "place", "case", "week", "system"),
    *("work", "point", "home", "water", "room", "mother", "area", "money", "story", "fact", "month", "lot"),
    *("right", "study", "book", "eye", "job", "word", "business", "issue", "side", "kind", "head", "house"),
    *("service", "friend", "father", "power", "hour", "game", "line", "end", "member", "law", "car", "city"),
    *("name", "team", "minute", "idea", "body"),
)
"""Each one token with a space before it, in most vocabularies."""

Hashes = NDArray[np.uint64]

SHARED, OWN = 0, 1


def numbers(
    seed: int, salt: int, index: int, length: int, blocks: Sequence[int] = (), scale: float = 1.0
) -> Hashes:
    """The `length` numbers of request `index`, each below 2^32.

    Block k covers the tokens from round(k * 512 * scale) on; what the blocks do not cover is the request's
    own. `salt` makes all contents differ, while what was shared stays shared.
    """
    edges = np.rint(np.arange(len(blocks) + 1) * (BLOCK_TOKENS * scale)).astype(np.int64)
    edges = np.append(np.minimum(edges, length), length)
    sizes = np.diff(edges)
    own = _keys(seed, salt, OWN, [index])
    keys = np.append(_keys(seed, salt, SHARED, blocks), own)
    places = np.arange(length) - np.repeat(edges[:-1], sizes)
    mixed = _mix(np.repeat(keys, sizes) + places.astype(np.uint64))
    return mixed >> np.uint64(32)


def as_tokens(drawn: Hashes) -> list[int]:
    """Token ids in the range `TOKENS`."""
    low, high = TOKENS
    return (_below(drawn, high - low) + np.uint64(low)).tolist()


def as_text(drawn: Hashes) -> str:
    """A word for each number."""
    places: list[int] = _below(drawn, len(WORDS)).tolist()
    return " ".join([WORDS[place] for place in places])


def _below(drawn: Hashes, limit: int) -> Hashes:
    return (drawn * np.uint64(limit)) >> np.uint64(32)


def _keys(seed: int, salt: int, kind: int, ids: Sequence[int]) -> Hashes:
    key = np.zeros(len(ids), np.uint64)
    for part in (seed, salt, kind):
        key = _mix(key + np.uint64(part))
    return _mix(key ^ _mix(np.asarray(ids, np.uint64)))


def _mix(values: Hashes) -> Hashes:
    """The output function of SplitMix64 (Steele, Lea, Flood, 2014), after one step of its state."""
    values = values + np.uint64(0x9E3779B97F4A7C15)
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
