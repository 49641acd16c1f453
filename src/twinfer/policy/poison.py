"""How far an engine's death speaks against the requests that its last step carried.

A request that kills whichever engine computes it makes them crash. An engine that was killed tells little:
an operator, another program or the system that is short of memory does that, to whatever is being computed.
So does one that hung: it may have been stopped, or have got no processor time on a crowded host.
"""

from __future__ import annotations

from signal import Signals

CRASH, KILLED = 2, 1

GUILTY = 4
"""Two crashes at the same token, or four other deaths: a request may also make engines hang for ever."""

CRASHES = {
    Signals.SIGSEGV,
    Signals.SIGBUS,
    Signals.SIGILL,
    Signals.SIGFPE,
    Signals.SIGABRT,
    Signals.SIGTRAP,
    Signals.SIGSYS,
}


def suspicion(exit_code: int, trusted: bool) -> int:
    """What a death adds to the suspicion against the requests in its last step.

    `exit_code` is the process's, negative after a signal; one that was no longer `trusted` had sent
    nonsense.
    """
    crashed = not trusted or exit_code >= 0 or -exit_code in CRASHES
    return CRASH if crashed else KILLED
