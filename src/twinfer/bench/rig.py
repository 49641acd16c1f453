"""Decoders in this process: no router, no protocol."""

from __future__ import annotations

import msgspec
import numpy as np
from numpy.typing import NDArray

from twinfer._native import Decoder, Team
from twinfer.cluster.memory import free_memory
from twinfer.errors import ConfigError
from twinfer.kv.layout import PAGE_TOKENS
from twinfer.kv.region import SharedRegion, enlarge_pages, map_region
from twinfer.kv.sizing import mib
from twinfer.model.build import build_decoder
from twinfer.serving import Shape


class Rig(msgspec.Struct, frozen=True):
    """The decoders of the two phases, one object where their precisions do not differ."""

    prefill: Decoder
    decode: Decoder


def build_rig(shape: Shape, cores: list[int], isa: str, pages: int) -> Rig:
    """Pack the weights and build decoders that compute on `cores` over a pool of `pages` pages.

    Memory is as in a deployment that has had time to put it on large pages. The calling thread becomes the
    team's first, and stays pinned to the first core.

    Raises:
        ConfigError: the pool does not fit into memory.
        EngineError: memory cannot be mapped.
    """
    pool_bytes = pages * shape.kv.page_bytes
    room = free_memory() - sum(plan.nbytes for plan in shape.plans.values())
    if pool_bytes > room:
        raise ConfigError(f"the KV of these sequences takes {mib(pool_bytes)}, but only {mib(room)} are free")
    team = Team(cores)
    pool = shared_memory(pool_bytes)
    pool[:] = 0  # Every page is there before anything is measured.

    def decoder(precision: str) -> Decoder:
        plan = shape.plans[precision]
        weights = shared_memory(plan.nbytes)
        plan.write(weights)
        return build_decoder(plan.layout, weights, pool, team, isa, shape.kv.dtype, PAGE_TOKENS)

    prefill, decode = shape.precisions
    first = decoder(prefill)
    return Rig(first, first if decode == prefill else decoder(decode))


def shared_memory(nbytes: int) -> NDArray[np.uint8]:
    """Zeroed memory as deployments share it, on large pages where there are some; gone with the array."""
    region = SharedRegion("twinfer-bench", nbytes)
    try:
        mapped = map_region(region.fd, region.nbytes, writable=True)
    finally:
        region.close()
    enlarge_pages(mapped)
    return np.frombuffer(mapped, np.uint8)
