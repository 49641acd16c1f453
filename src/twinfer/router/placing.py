"""Which decode engine, if any, computes a prompt sooner than the prefill engines would."""

from __future__ import annotations

import math
from collections.abc import Collection

import msgspec

from twinfer.policy.chunking import step_tokens
from twinfer.policy.costs import Answers, decode_seconds
from twinfer.policy.placement import Decode, Prefill, place_on_decode
from twinfer.router.engines import EngineView, candidates
from twinfer.router.request import Request

SLOWER = 2.0
"""How much longer a prompt token takes without borrowed cores, until it was measured."""


class Placing(msgspec.Struct, frozen=True):
    """What bounds prompts on decode engines: tokens a step, and the seconds between tokens to be kept."""

    chunk: int
    slo_tpot: float | None


def find_decode_engine(
    placing: Placing, engines: Collection[EngineView], request: Request, now: float
) -> tuple[str, int] | None:
    """The engine and the prompt tokens a step it is to compute; None where prefill is as good."""
    prefilling = candidates(engines, "prefill")
    free = [
        engine
        for engine in engines
        if engine.serves("decode") and not engine.prefilling and engine not in prefilling
    ]
    if not free or not prefilling:
        return None
    decode = min(free, key=lambda engine: (len(engine.decoding), engine.id))
    prefill = min(
        (_prefill(engine, request, placing.chunk, now) for engine in prefilling), key=lambda site: site.wait
    )
    contexts = [len(other.tokens) for other in decode.decoding.values()] or [len(request.tokens)]
    site = Decode(
        decode_seconds(decode.costs, Answers(len(contexts), sum(contexts))),
        len(decode.decoding),
        decode.costs.token or SLOWER * prefill.token,
        placing.slo_tpot,
    )
    chunk = place_on_decode(request.remaining, prefill, site, placing.chunk)
    return (decode.id, chunk) if chunk else None


def _prefill(engine: EngineView, request: Request, chunk: int, now: float) -> Prefill:
    """How a prefill engine looks to a new prompt; a step under way has begun when the last one ended."""
    token = engine.costs.token
    wanted = min((r.due - r.timeline.arrived for r in engine.prefilling.values()), default=math.inf)
    step = step_tokens(chunk, engine.costs.rate, wanted)
    under_way = min(step, sum(r.remaining for r in engine.prefilling.values()))
    left = max(0.0, under_way * token - (now - engine.stepped))
    ahead = engine.load_before(request).prompt_tokens
    return Prefill(left + max(0, ahead - under_way) * token, token, len(engine.prefilling))
