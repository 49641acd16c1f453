"""Whether a prompt waits for one that begins alike and is being computed, instead of computing it too."""

from __future__ import annotations

from twinfer.policy.queueing import AGEING


def worth_waiting(coming: int, own: int, behind: float) -> bool:
    """Whether `coming` tokens, which another prompt is computing now, are worth waiting for.

    `own` tokens would have to be computed without them, and the other's turn is `behind` seconds later.
    Half of the work must be saved, and what is saved must make up for letting the other go first. So
    only prompts with a turn up to some time are waited for, of which there is an end: nothing starves.
    """
    return 2 * coming >= own and behind * AGEING <= coming
