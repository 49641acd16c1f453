"""How many requests may decode at a time, and how long one waits until it may."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from twinfer.policy.costs import Answers, Costs, decode_seconds, most_answers, smooth
from twinfer.policy.overload import slot_wait
from twinfer.policy.pacing import MARGIN

NEWS = 0.05
"""What one more answer counts for in the mean length, at least."""


class Slots(msgspec.Struct):
    """At most `most` requests decode on one engine, and no more than keep `slo_tpot`.

    Engines are known by what a token of each answer costs there, with all that is computed between two, and
    answers by the tokens of context that each reads in the mean. `ended` answers have ended; `answer` is the
    tokens of a usual one, 0 until then.
    """

    most: int
    slo_tpot: float | None = None
    ended: int = 0
    answer: float = 0.0

    def count(self, tokens: int) -> None:
        """An answer of so many tokens has ended."""
        self.ended += 1
        self.answer = smooth(self.answer, tokens, max(NEWS, 1 / self.ended))

    def of(self, costs: Costs, context: float) -> int:
        """Requests that may decode on an engine at a time."""
        if self.slo_tpot is None:
            return self.most
        most = most_answers(costs, MARGIN * self.slo_tpot, context)
        return self.most if most is None else min(self.most, most)

    def on(self, engines: Iterable[Costs], running: Answers) -> int:
        """Requests that may decode on all of them at a time, given what those that run are like."""
        return sum(self.of(costs, _context(running)) for costs in engines)

    def ends(self, costs: Costs, context: float) -> float:
        """Answers that end in a second on an engine whose slots are all taken; 0 while that is not known."""
        slots = self.of(costs, context)
        seconds = self.answer * decode_seconds(costs, Answers(slots, round(slots * context)))
        return slots / seconds if seconds else 0.0

    def wait(self, engines: list[Costs], running: Answers, waiting: int) -> float:
        """Seconds until a request may start of which `waiting` come before, while others run."""
        ends = sum(self.ends(costs, _context(running)) for costs in engines)
        return slot_wait(waiting, self.on(engines, running) - running.count, ends)


def _context(running: Answers) -> float:
    """Tokens of context of one of those that run, in the mean."""
    return running.context / running.count if running.count else 0.0
