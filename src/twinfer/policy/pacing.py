"""When decode takes its next step, and for how long its cores may be lent before it."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

MARGIN = 0.95
"""Share of the target that the pace aims at; the rest absorbs what comes in between."""

LEAST, MOST = 0.6, 1.15
"""Targets between two steps: a request that is late is not hurried at any price, nor does one that is early
see its answer stand still."""

NOTICE = 0.0003
"""Seconds before the next step at which borrowers take no more work."""


class Pace(msgspec.Struct, frozen=True):
    """A request's answer so far: `tokens` written since the time `since`."""

    since: float
    tokens: int


def next_step(
    paces: Iterable[Pace], last_began: float, step_seconds: float, target: float | None, prompts_wait: bool
) -> float:
    """The earliest time of the next step, on the clock of `last_began`, when the last one began.

    While prompts wait, a step sooner than the target of seconds between tokens helps nobody, and the
    cores are better lent to prefill: the step is taken in time for the request that needs it first, on
    average over its answer. So what was written faster while no prompt waited gives room now, and a delay
    is made up for. Otherwise, and without a target, there is no reason to wait.
    """
    if target is None or not prompts_wait:
        return 0.0
    wanted = min((pace.since + MARGIN * target * (pace.tokens + 1) for pace in paces), default=0.0)
    return min(max(wanted - step_seconds, last_began + LEAST * target), last_began + MOST * target)


def lend_until(next_step: float) -> float:
    """Until when the cores may be lent, if the next step is taken at that time."""
    return next_step - NOTICE
