"""How large the pool is, from what was asked for and what the machine has free."""

from __future__ import annotations

import msgspec

from twinfer.errors import ConfigError
from twinfer.kv.layout import PAGE_TOKENS, Layout


class PoolSize(msgspec.Struct, frozen=True):
    """Pages of the pool, and the longest request (prompt and answer, in tokens) that it serves."""

    pages: int
    max_model_len: int


def size_pool(
    layout: Layout,
    *,
    requested: int | None,
    default: int,
    bound: int,
    context_length: int,
    max_model_len: int | None,
) -> PoolSize:
    """Choose the number of pages.

    `requested` bytes must fit into `bound`; without a request it is `default`, cut to `bound`.
    One request must always fit into the pool alone, so `max_model_len` is cut to it, unless the
    caller asked for a length that does not fit.

    Raises:
        ConfigError: the request does not fit into memory, or a length into the pool or the model.
    """
    if requested is not None and requested > bound:
        raise ConfigError(
            f"a KV pool of {mib(requested)} does not fit into the {mib(bound)} allowed of the free memory;"
            " choose a smaller --kv-pool-size or free some memory"
        )
    pages = min(requested if requested is not None else default, bound) // layout.page_bytes
    tokens = pages * PAGE_TOKENS
    if tokens < 2 * PAGE_TOKENS:
        raise ConfigError(
            f"the KV pool holds {pages} pages; it needs 2 of {layout.page_bytes} bytes at least"
        )
    if max_model_len is None:
        return PoolSize(pages, min(context_length, tokens))
    if max_model_len > context_length:
        raise ConfigError(
            f"max_model_len={max_model_len} is over the model's context of {context_length} tokens"
        )
    if max_model_len > tokens:
        raise ConfigError(
            f"max_model_len={max_model_len} does not fit into a KV pool of {tokens} tokens;"
            f" it takes --kv-pool-size {mib(max_model_len * layout.token_bytes + layout.page_bytes)}"
        )
    return PoolSize(pages, max_model_len)


def mib(size: int) -> str:
    """A size for people."""
    return f"{size / (1 << 20):.0f}MiB"
