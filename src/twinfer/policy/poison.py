"""How far an engine's death speaks against the requests that its last step carried.

A request that kills whichever engine computes it makes them crash, or never come back from a step. What
was ended from outside tells little: an operator, another program or the system that is short of memory
does that, to whatever is being computed.
"""

from __future__ import annotations

from signal import Signals

CRASH, OUTSIDE = 2, 1

GUILTY = 4
"""Two crashes at the same token; deaths from outside count half, lest one such goes on for ever."""

CRASHES = {
    Signals.SIGSEGV,
    Signals.SIGBUS,
    Signals.SIGILL,
    Signals.SIGFPE,
    Signals.SIGABRT,
    Signals.SIGTRAP,
    Signals.SIGSYS,
}


def suspicion(exit_code: int, put_down: bool) -> int:
    """What a death adds to the suspicion against the requests in its last step.

    `exit_code` is the process's, negative after a signal; `put_down` says that we killed it for what it
    did itself: it hung, or sent nonsense.
    """
    crashed = put_down or exit_code >= 0 or -exit_code in CRASHES
    return CRASH if crashed else OUTSIDE
