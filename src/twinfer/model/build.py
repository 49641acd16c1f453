"""Building a native decoder from packed weights and a KV pool."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twinfer import _native
from twinfer.errors import ConfigError

ISA_VARIABLE = "TWINFER_ISA"


def choose_isa(name: str | None = None, environment: Mapping[str, str] = os.environ) -> str:
    """The instruction set to use: `name`, else the environment's TWINFER_ISA, else the machine's best.

    Raises:
        ConfigError: this machine cannot run it.
    """
    available = _native.isas()
    chosen = name or environment.get(ISA_VARIABLE) or available[0]
    if chosen not in available:
        raise ConfigError(f"instruction set '{chosen}' is not one of {', '.join(available)}")
    return chosen


def build_decoder(
    layout: dict[str, Any],
    weights: NDArray[np.uint8],
    pool: NDArray[np.uint8],
    team: _native.Team,
    isa: str | None = None,
    kv_dtype: str = "bf16",
    page_tokens: int = 16,
) -> _native.Decoder:
    """A decoder over weights packed by `pack.Plan.write` and pages of `pool`; it keeps both alive.

    Raises:
        ConfigError: the instruction set cannot run here.
        ValueError: the layout does not fit the weights, or the pool's kind is not supported.
    """
    return _native.Decoder(layout, weights, pool, team, choose_isa(isa), kv_dtype, page_tokens)
