"""Who is next: shortest remaining work first, with ageing; who would be late anyway comes last.

A request's turn is a point in time, its arrival plus the time its remaining prompt tokens are worth;
the earliest turn comes first. So a short prompt overtakes a long one that came a little before it, and
nothing starves: whatever arrives later than a request's turn comes after it, however short.

A request that can no longer have its first token when it is due would only make others late too. It
lets those go first that come up to `LATE` seconds after it. In a simulation of the Azure conversation
trace with 3 s to the first token, offered 30 % over capacity for three minutes, this keeps 92 % in time
where turns alone keep 81 %, even with early refusal. That is what planning the whole queue anew at each
step gives as well (Moore and Hodgson's rule), which suffers more when the rate is misjudged.
"""

from __future__ import annotations

import math

AGEING = 500.0
"""Prompt tokens that one second of waiting makes up for."""

PRIORITY = 10.0
"""Seconds of waiting that one level of priority makes up for; lower numbers come first."""

LATE = 300.0
"""Seconds of waiting that make up for being late; so long that an overload of minutes is got through."""

MARGIN = 0.9
"""Share of a target that is planned with."""


def turn(arrived: float, remaining: int, priority: int, late: bool = False) -> float:
    """The turn of a request with `remaining` prompt tokens to compute, as a time like `arrived`."""
    return arrived + remaining / AGEING + priority * PRIORITY + (LATE if late else 0.0)


def due(arrived: float, target: float | None, timeout: float | None) -> float:
    """Until when the first token should be there; infinity when nobody minds.

    `target` is wanted of all requests, and at `timeout` the request is ended; both count from `arrived`.
    """
    waits = [math.inf if target is None else MARGIN * target, math.inf if timeout is None else timeout]
    return arrived + min(waits)


def is_late(now: float, remaining: int, rate: float, due: float) -> bool:
    """Whether the first token would come after `due` even if the request were next.

    `rate` is prompt tokens a second; 0 while nothing is known, which is not held against the request.
    """
    return now + (remaining / rate if rate > 0 else 0.0) > due
