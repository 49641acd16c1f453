"""From a `Load` message to decoders over shared memory."""

from __future__ import annotations

import os

import numpy as np
from numpy.typing import NDArray

from twinfer._native import Decoder, Team
from twinfer.engine.validation import Bounds
from twinfer.errors import BadMessageError
from twinfer.kv.board import LENT, SLOT_WORDS
from twinfer.kv.layout import Layout
from twinfer.kv.region import map_region
from twinfer.messages import Load, Region, Weights
from twinfer.model.build import build_decoder
from twinfer.turns import BORROWING, COMPUTING, take_turns


def build_team(load: Load, cores: list[int], words: NDArray[np.uint64]) -> Team:
    """Threads on `cores`, and on cores of other engines while `words`, the board's, say so.

    The calling thread is the first of them. It comes before the others on a core that both want, and after
    those that carry messages, which have the router's turns.
    """
    borrowed = load.place.lenders
    places = [-1] * len(cores) + [slot * SLOT_WORDS + LENT for _, slot in borrowed]
    take_turns(BORROWING)
    team = Team(cores + [core for core, _ in borrowed], words, places)
    take_turns(COMPUTING)
    return team


def build(load: Load, team: Team) -> tuple[Decoder, Decoder]:
    """The decoders of prefill and decode; one object where they do not differ. They compute on `team`.

    Raises:
        EngineError: the shared memory cannot be mapped.
        ModelError: the weights' layout is not one that this version reads.
    """
    pool = _array(load.pool.region, writable=True)

    def decoder(weights: Weights) -> Decoder:
        return build_decoder(
            weights.layout,
            _array(weights.region, writable=False),
            pool,
            team,
            isa=os.environ.get("TWINFER_ISA"),
            kv_dtype=load.pool.dtype,
            page_tokens=load.pool.page_tokens,
        )

    prefill = decoder(load.prefill)
    return prefill, prefill if load.decode is None else decoder(load.decode)


def bounds(load: Load) -> Bounds:
    """What the engine's requests may name, from a `Load` that `build` has built.

    Raises:
        BadMessageError: the phases' weights are of different models.
    """
    config = load.prefill.layout["config"]
    if load.decode is not None and load.decode.layout["config"] != config:
        raise BadMessageError("bad message: prefill and decode have different models")
    kv = Layout(config["layers"], config["kv_heads"], config["head_dim"], load.pool.dtype)
    return Bounds(config["vocab"], load.pool.region.nbytes // kv.page_bytes, load.pool.page_tokens)


def _array(region: Region, *, writable: bool) -> NDArray[np.uint8]:
    return np.frombuffer(map_region(region.fd, region.nbytes, writable=writable), np.uint8)
