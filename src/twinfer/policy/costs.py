"""What steps cost on an engine, learnt from the steps it has taken."""

from __future__ import annotations

import math

import msgspec

MEMORY = 0.9
"""What earlier decode steps count for at each new one, in how long a usual one takes."""

LASTING = 0.96
"""Likewise, where what counts is the mean over an answer of some length."""

SLOPES = 0.99
"""Likewise, in how much longer a step takes for more answers or more context: that is a matter of the machine
and the model, and of the few steps in a row that are not like the one before."""

NEWS = 0.2
"""What a new step with prompt tokens counts for."""

SPREAD = 0.05
"""Variance of the number of answers below which steps say nothing of what one more costs."""

EVEN = 0.03
"""Share of the mean context by which steps must differ, lest context seems to cost what more answers do: both
often grow together."""

RATE_MEMORY = 0.5
"""Seconds of work over which the rate of prompt tokens is averaged; what is older counts less and less."""


class Answers(msgspec.Struct, frozen=True):
    """The answers of a decode step, and the tokens of `context` that they read together."""

    count: int
    context: int


class Costs(msgspec.Struct):
    """What is known of an engine's steps: 0 while nothing is.

    `rate` is prompt tokens a second in steps that carry some, whatever else those carry; `token` the seconds
    that one more prompt token takes. `answers`, `context` and `seconds` are a usual decode step: fading means
    over `steps`. The others are fading sums, over `differing` decode steps, of products of what each differed
    by from the usual one.
    """

    rate: float = 0.0
    token: float = 0.0
    steps: float = 0.0
    answers: float = 0.0
    context: float = 0.0
    seconds: float = 0.0
    differing: float = 0.0
    answers_answers: float = 0.0
    context_context: float = 0.0
    answers_context: float = 0.0
    answers_seconds: float = 0.0
    context_seconds: float = 0.0


class Between(msgspec.Struct):
    """What a token of each answer costs on an engine, with all that is computed there since the one before.

    `helped` while other engines have nothing to do and lend their cores, `alone` while they have.
    """

    alone: Costs = msgspec.field(default_factory=Costs)
    helped: Costs = msgspec.field(default_factory=Costs)

    @property
    def both_known(self) -> bool:
        """Whether steps of both kinds have been taken."""
        return self.alone.steps > 0 and self.helped.steps > 0


def learn(costs: Costs, prompt_tokens: int, answers: Answers, seconds: float, memory: float = MEMORY) -> None:
    """A step of so many prompt tokens and such answers took so long.

    What the answers cost is taken off a step that carries both, as far as it is known. Among decode
    steps earlier ones count for `memory` of what they did.
    """
    if prompt_tokens:
        costs.rate = smooth_rate(costs.rate, prompt_tokens, seconds)
        token = max(seconds - decode_seconds(costs, answers), 0.2 * seconds) / prompt_tokens
        costs.token = smooth(costs.token, token, NEWS)
    elif answers.count:
        more = answers.count - costs.answers
        further = answers.context - costs.context
        longer = seconds - costs.seconds
        if costs.steps:
            _learn_slopes(costs, more, further, longer)
        costs.steps = memory * costs.steps + 1
        share = 1 / costs.steps
        costs.answers += share * more
        costs.context += share * further
        costs.seconds += share * longer


def _learn_slopes(costs: Costs, more: float, further: float, longer: float) -> None:
    """A step carried so many answers and so much context more than the usual one, and took so much longer."""
    costs.differing = SLOPES * costs.differing + 1
    costs.answers_answers = SLOPES * costs.answers_answers + more * more
    costs.context_context = SLOPES * costs.context_context + further * further
    costs.answers_context = SLOPES * costs.answers_context + more * further
    costs.answers_seconds = SLOPES * costs.answers_seconds + more * longer
    costs.context_seconds = SLOPES * costs.context_seconds + further * longer


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


def decode_seconds(costs: Costs, answers: Answers) -> float:
    """How long a step takes, from how those taken differed; 0 while none was."""
    if answers.count == 0 or costs.steps == 0:
        return 0.0
    answer, token = _slopes(costs)
    longer = answer * (answers.count - costs.answers) + token * (answers.context - costs.context)
    return max(0.0, costs.seconds + longer)


def token_seconds(between: Between, answers: Answers, alone: float) -> float:
    """How long a token of each answer takes, where the engine is alone for so large a share of the steps."""
    if not between.both_known:
        return decode_seconds(between.alone if between.alone.steps else between.helped, answers)
    helped = decode_seconds(between.helped, answers)
    return helped + alone * max(0.0, decode_seconds(between.alone, answers) - helped)


def most_answers(costs: Costs, seconds: float, context: float) -> int | None:
    """The most answers, at least 1, of which a step takes at most so long; None while nothing says so.

    Each reads so many tokens of context. Of steps with more than twice as many as those taken nothing is
    known. Where steps did not differ enough, one takes as long as it has answers.
    """
    if costs.steps == 0:
        return None
    answer, token = _slopes(costs)
    each = answer + token * context
    if each > 0:
        none = costs.seconds - answer * costs.answers - token * costs.context
        most = (seconds - none) / each
    else:
        most = costs.answers * seconds / costs.seconds
    return None if most >= 2 * costs.answers else max(1, int(most))


def _slopes(costs: Costs) -> tuple[float, float]:
    """Seconds that one answer more takes, and one token of context more; 0 where that is not known.

    No more than would leave nothing of a usual step for one without answers: what differed long ago may have
    had other reasons.
    """
    answer, token = _least_squares(costs)
    whole = answer * costs.answers + token * costs.context
    share = costs.seconds / whole if whole > costs.seconds else 1.0
    return share * answer, share * token


def _least_squares(costs: Costs) -> tuple[float, float]:
    """The slopes that fit best, none below 0, that of context drawn to 0.

    Ridge regression: Hoerl and Kennard, 1970.
    """
    if costs.differing == 0:
        return 0.0, 0.0
    few = costs.answers_answers <= SPREAD * costs.differing
    answers, both = costs.answers_answers, costs.answers_context
    context = costs.context_context + costs.differing * (EVEN * costs.context) ** 2
    by_answers = 0.0 if few else max(0.0, costs.answers_seconds / answers)
    by_context = max(0.0, costs.context_seconds / context) if context else 0.0
    left = answers * context - both * both
    if few or left <= 0:
        return by_answers, 0.0 if by_answers else by_context
    answer = (context * costs.answers_seconds - both * costs.context_seconds) / left
    token = (answers * costs.context_seconds - both * costs.answers_seconds) / left
    if token < 0:
        return by_answers, 0.0
    return (answer, token) if answer >= 0 else (0.0, by_context)
