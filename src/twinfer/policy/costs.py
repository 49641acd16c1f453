"""What steps cost on an engine, learnt from the steps it has taken."""

from __future__ import annotations

import math

import msgspec

MEMORY = 0.9
"""What earlier decode steps count for at each new one."""

LASTING = 0.96
"""Likewise, where what counts is the mean over an answer of some length."""

HELPED = 0.1
"""What a step counts for that had cores of others, which it will not have when it matters."""

NEWS = 0.2
"""What a new step with prompt tokens counts for."""


RATE_MEMORY = 0.5
"""Seconds of work over which the rate of prompt tokens is averaged; what is older counts less and less."""


class Costs(msgspec.Struct):
    """What is known of an engine's steps: 0 while nothing is.

    `rate` is prompt tokens a second in steps that carry some, whatever else those carry; `token` the seconds
    that one more prompt token takes. The others are fading sums over decode steps.
    """

    rate: float = 0.0
    token: float = 0.0
    steps: float = 0.0
    batch: float = 0.0
    square: float = 0.0
    seconds: float = 0.0
    product: float = 0.0


def learn(
    costs: Costs, prompt_tokens: int, batch: int, seconds: float, memory: float = MEMORY, weight: float = 1.0
) -> None:
    """A step of so many prompt tokens and answers took so long.

    What the answers cost is taken off a step that carries both, as far as it is known. Among decode
    steps it counts for `weight`, and earlier ones for `memory` of what they did.
    """
    if prompt_tokens:
        costs.rate = smooth_rate(costs.rate, prompt_tokens, seconds)
        token = max(seconds - decode_seconds(costs, batch), 0.2 * seconds) / prompt_tokens
        costs.token = smooth(costs.token, token, NEWS)
    elif batch:
        costs.steps = memory * costs.steps + weight
        costs.batch = memory * costs.batch + weight * batch
        costs.square = memory * costs.square + weight * batch * batch
        costs.seconds = memory * costs.seconds + weight * seconds
        costs.product = memory * costs.product + weight * batch * seconds


def smooth(mean: float, value: float, news: float) -> float:
    """A mean, 0 while nothing is known, with a value taken into account that counts for `news` of it."""
    return value if mean == 0 else mean + news * (value - mean)


def smooth_rate(rate: float, tokens: int, seconds: float) -> float:
    """A measured rate, with a step of `tokens` in `seconds` taken into account, the more the longer it was.

    So a few tokens, which take longer each, do not hide what whole prompts take.
    """
    if tokens == 0 or seconds <= 0:
        return rate
    measured = tokens / seconds
    return smooth(rate, measured, 1 - math.exp(-seconds / RATE_MEMORY))


def decode_seconds(costs: Costs, batch: int) -> float:
    """How long a step of `batch` answers takes: a line through the steps taken; 0 while none was.

    A line through steps of nearly one size is not trusted: then a step takes what they took.
    """
    if batch == 0 or costs.steps == 0:
        return 0.0
    size, seconds, slope = _line(costs)
    return max(0.0, seconds + slope * (batch - size))


def most_batch(costs: Costs, seconds: float) -> int | None:
    """The most answers, at least 1, of which a step takes at most so long; None while nothing says so.

    Of steps more than twice as large as those taken nothing is known. Where no line can be trusted, a step
    takes as long as it has answers.
    """
    if costs.steps == 0:
        return None
    size, usual, slope = _line(costs)
    most = size + (seconds - usual) / (slope or usual / size)
    return None if most >= 2 * size else max(1, int(most))


def _line(costs: Costs) -> tuple[float, float, float]:
    """Answers and seconds of a usual step, and the seconds that one answer more takes; 0 where unknown."""
    size, seconds = costs.batch / costs.steps, costs.seconds / costs.steps
    spread = costs.square / costs.steps - size * size
    slope = (costs.product / costs.steps - size * seconds) / spread if spread > 0.25 else 0.0
    return size, seconds, max(0.0, slope)
