"""Which engine gets a request."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec


class Load(msgspec.Struct, frozen=True):
    """An engine's work: prompt tokens to compute before those at hand, and requests it decodes."""

    engine: str
    prompt_tokens: int
    decoding: int


def route_prefill(engines: Iterable[Load], backlog: int) -> str | None:
    """The engine with the fewest prompt tokens ahead, or None while all have `backlog` or more.

    The backlog is what an engine needs to be busy until it hears from the router again; what is
    beyond waits in the router's queue, where it holds no pages yet.
    """
    best = min(engines, key=lambda load: (load.prompt_tokens, load.engine), default=None)
    return best.engine if best and best.prompt_tokens < backlog else None


def route_decode(engines: Iterable[Load]) -> str | None:
    """The engine that decodes the fewest requests."""
    best = min(engines, key=lambda load: (load.decoding, load.engine), default=None)
    return best.engine if best else None
