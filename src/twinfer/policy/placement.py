"""Where a prompt is computed: by a prefill engine, or by a decode engine between its steps.

With lent cores a prefill engine computes prompts with all that decode leaves, so as a rule prompts belong
there. A decode engine pays for a short one, or for the last tokens of a long one that is cached, while
the prefill engine is in the middle of a long chunk: a chunk is not interrupted. All times are seconds.
"""

from __future__ import annotations

import math

import msgspec

from twinfer.policy.pacing import MARGIN

CLEARLY = 0.7
"""Share of the time on a prefill engine that a decode engine may take, since both are only predicted."""

LEAST = 4
"""Prompt tokens a step, below which a decode engine takes none."""


class Prefill(msgspec.Struct, frozen=True):
    """A prefill engine as a new prompt finds it.

    `wait` passes before its first chunk, a token takes `token`, and `prompts` are being computed there
    or wait for it.
    """

    wait: float
    token: float
    prompts: int


class Decode(msgspec.Struct, frozen=True):
    """A decode engine that computes no prompt: its steps take `step` and carry `batch` answers.

    A prompt token takes `token` there. `target` is the time between tokens to be kept.
    """

    step: float
    batch: int
    token: float
    target: float | None


def step_budget(decode: Decode, most: int) -> int:
    """Prompt tokens that a step may carry besides the answers so that it keeps the target; up to `most`."""
    if decode.target is None or decode.token <= 0:
        return most
    return max(0, min(most, int((MARGIN * decode.target - decode.step) / decode.token)))


def place_on_decode(tokens: int, prefill: Prefill, decode: Decode, chunk: int) -> int:
    """Prompt tokens a step with which a decode engine is to compute a prompt of `tokens`; 0: prefill is.

    The decode engine is to be clearly sooner, to keep its target, and to take no more time from others
    than it saves the prompt: from the answers, where there is no target, and from prompts of the prefill
    engine, which works on decode's cores too as long as those are idle. `chunk` bounds a step.
    """
    budget = step_budget(decode, chunk)
    if budget < min(LEAST, tokens) or prefill.token <= 0:
        return 0
    compute = tokens * decode.token
    here = decode.step + math.ceil(tokens / budget) * decode.step + compute
    there = prefill.wait + tokens * prefill.token
    taken = 0.0 if decode.target is not None else decode.batch * compute
    taken += prefill.prompts * 0.5 * _lent(decode) * here
    return budget if here < CLEARLY * there and taken < there - here else 0


def _lent(decode: Decode) -> float:
    """The share of its time for which the decode engine lends its cores while prompts wait."""
    if decode.batch == 0:
        return 1.0
    if decode.target is None:
        return 0.0
    return max(0.0, 1 - decode.step / (MARGIN * decode.target))
