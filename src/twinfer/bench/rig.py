"""Decoders in this process: no router, no protocol."""

from __future__ import annotations

import mmap
from typing import Literal

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

Memory = Literal["shared", "private"]


class Rig(msgspec.Struct, frozen=True):
    """The decoders of the two phases, one object where their precisions do not differ."""

    prefill: Decoder
    decode: Decoder


def build_rig(shape: Shape, cores: list[int], isa: str, pages: int, memory: Memory) -> Rig:
    """Pack the weights and build decoders that compute on `cores` over a pool of `pages` pages.

    `memory` is "shared", as a deployment has it, or "private", where more hosts have large pages for the
    pool too.

    The calling thread becomes the team's first, and stays pinned to the first core.

    Raises:
        ConfigError: the pool does not fit into memory.
        EngineError: memory cannot be mapped.
    """
    pool_bytes = pages * shape.kv.page_bytes
    room = free_memory() - sum(plan.nbytes for plan in shape.plans.values())
    if pool_bytes > room:
        raise ConfigError(f"the KV of these sequences takes {mib(pool_bytes)}, but only {mib(room)} are free")
    team = Team(cores)
    pool = _map(memory, pool_bytes)
    pool[:] = 0  # Every page is there before anything is measured.

    def decoder(precision: str) -> Decoder:
        plan = shape.plans[precision]
        weights = _map(memory, plan.nbytes)
        if memory == "shared":
            enlarge_pages(weights.data)
        plan.write(weights)
        return build_decoder(plan.layout, weights, pool, team, isa, shape.kv.dtype, PAGE_TOKENS)

    prefill, decode = shape.precisions
    first = decoder(prefill)
    return Rig(first, first if decode == prefill else decoder(decode))


def _map(memory: Memory, nbytes: int) -> NDArray[np.uint8]:
    """Zeroed memory, gone with the array."""
    if memory == "private":
        mapped = mmap.mmap(-1, nbytes, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        mapped.madvise(mmap.MADV_HUGEPAGE)
        return np.frombuffer(mapped, np.uint8)
    region = SharedRegion("twinfer-bench", nbytes)
    try:
        return np.frombuffer(map_region(region.fd, region.nbytes, writable=True), np.uint8)
    finally:
        region.close()
