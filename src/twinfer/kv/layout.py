"""How KV lies in a page: sizes only. Knows no requests and no schedulers.

A page holds all layers of `PAGE_TOKENS` tokens contiguously: for each layer the keys and then the
values of each KV head. Keys are stored across tokens, so that one vector load brings the same
element of 16 tokens; the native module documents the order within a block.
"""

from __future__ import annotations

import msgspec

PAGE_TOKENS = 16
ELEMENT_BYTES = {"f32": 4, "bf16": 2}


class Layout(msgspec.Struct, frozen=True):
    """The shape of a model's KV. `dtype` is a key of `ELEMENT_BYTES`."""

    layers: int
    kv_heads: int
    head_dim: int
    dtype: str

    @property
    def token_bytes(self) -> int:
        """Bytes of KV of one token, over all layers."""
        return 2 * self.layers * self.kv_heads * self.head_dim * ELEMENT_BYTES[self.dtype]

    @property
    def page_bytes(self) -> int:
        """Bytes of one page."""
        return self.token_bytes * PAGE_TOKENS
