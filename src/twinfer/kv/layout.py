"""How KV lies in a page: sizes only. Knows no requests and no schedulers.

A page holds all layers of `PAGE_TOKENS` tokens contiguously: for each layer and KV head the keys and
then the values. Keys are stored across tokens, so that one vector load brings the same
element of 16 tokens; the native module documents the order within a block. `int8` keeps one float32
scale per token and head for the key and one for the value, in front of the block's codes.
"""

from __future__ import annotations

import msgspec

PAGE_TOKENS = 16
KV_DTYPES = ("f32", "bf16", "int8")
SCALE_BYTES = 4


def vector_bytes(dtype: str, head_dim: int) -> int:
    """Bytes of one token's key (or value) of one head; with `int8` its scale included."""
    if dtype == "int8":
        return -(-head_dim // 4) * 4 + SCALE_BYTES
    return head_dim * {"f32": 4, "bf16": 2}[dtype]


class Layout(msgspec.Struct, frozen=True):
    """The shape of a model's KV. `dtype` is one of `KV_DTYPES`."""

    layers: int
    kv_heads: int
    head_dim: int
    dtype: str

    @property
    def token_bytes(self) -> int:
        """Bytes of KV of one token, over all layers."""
        return 2 * self.layers * self.kv_heads * vector_bytes(self.dtype, self.head_dim)

    @property
    def page_bytes(self) -> int:
        """Bytes of one page."""
        return self.token_bytes * PAGE_TOKENS
