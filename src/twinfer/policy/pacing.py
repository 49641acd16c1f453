"""When decode takes its next step, and for how long its cores may be lent before it."""

from __future__ import annotations

MARGIN = 0.9
"""Share of the target that the pace aims at; the rest absorbs what comes in between."""

NOTICE = 0.0003
"""Seconds before the next step at which borrowers take no more work."""


def next_step(last_began: float, target: float | None, prompts_wait: bool) -> float:
    """The earliest time of the next step, on the clock of `last_began`, when the last one began.

    While prompts wait, a step sooner than the target of seconds between tokens helps nobody, and the
    cores are better lent to prefill. Otherwise, and without a target, there is no reason to wait.
    """
    return last_began + MARGIN * target if target is not None and prompts_wait else 0.0


def lend_until(next_step: float) -> float:
    """Until when the cores may be lent, if the next step is taken at that time."""
    return next_step - NOTICE
