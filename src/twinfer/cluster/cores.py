"""Which engine gets which processor cores of this host."""

from __future__ import annotations

import itertools
import os


def usable_cores() -> list[int]:
    """Cores that this process may run on, which in a container may be fewer than the host has."""
    return sorted(os.sched_getaffinity(0))


def split_cores(cores: list[int], parts: int) -> list[list[int]]:
    """Deal the cores out in contiguous runs as even as possible; with too few, engines share them."""
    if parts >= len(cores):
        return [[cores[part % len(cores)]] for part in range(parts)]
    bounds = [len(cores) * part // parts for part in range(parts + 1)]
    return [cores[low:high] for low, high in itertools.pairwise(bounds)]
