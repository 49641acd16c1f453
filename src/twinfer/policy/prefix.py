"""Names for full pages of KV, by content: a chain of hashes over the tokens.

A page's key depends on every token up to its end and on what the KV was computed with, so equal keys
mean equal KV. The hash is SHA-256: collisions are found neither by chance nor on purpose.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from hashlib import sha256


def chain_root(*parts: str) -> bytes:
    """Where a chain starts: `parts` separate models, precisions and tenants from each other."""
    return sha256("\0".join(parts).encode()).digest()


def extend_chain(keys: list[bytes], root: bytes, tokens: Sequence[int], page_tokens: int) -> None:
    """Append to `keys`, those of the first pages, the keys of all further full pages of `tokens`."""
    for page in range(len(keys), len(tokens) // page_tokens):
        content = array("i", tokens[page * page_tokens : (page + 1) * page_tokens]).tobytes()
        before = keys[-1] if keys else root
        keys.append(sha256(before + content).digest())


def common(keys: Sequence[bytes], others: Sequence[bytes]) -> int:
    """How many keys two chains begin with alike. Equal keys follow equal ones, so halving finds it."""
    least, most = 0, min(len(keys), len(others))
    while least < most:
        middle = (least + most + 1) // 2
        if keys[middle - 1] == others[middle - 1]:
            least = middle
        else:
            most = middle - 1
    return least
