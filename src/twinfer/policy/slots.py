"""How many requests may decode at a time, and how long one waits until it may."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from twinfer.policy.costs import Answers, Between, decode_seconds, most_answers, smooth, token_seconds
from twinfer.policy.overload import slot_wait
from twinfer.policy.pacing import MARGIN

NEWS = 0.05
"""What one more answer counts for in the mean length, at least."""

KEPT = 0.95
"""What earlier prompts count for at each new one, in how long they take."""


class Slots(msgspec.Struct):
    """At most `most` requests decode on one engine, and no more than keep `slo_tpot`.

    Engines are known by what a token of each answer costs there, and answers by the tokens of context that
    each reads in the mean. `ended` answers have ended; `answer` is the tokens of a usual one, 0 until then.
    Engines have computed nothing but prompts for `seconds`, for so many `prompts`: fading sums.
    """

    most: int
    slo_tpot: float | None = None
    ended: int = 0
    answer: float = 0.0
    prompts: float = 0.0
    seconds: float = 0.0

    def note(self, seconds: float, prompts: int) -> None:
        """An engine has taken a step with prompts only, of which so many are done now."""
        self.prompts = KEPT**prompts * self.prompts + prompts
        self.seconds = KEPT**prompts * self.seconds + seconds

    def count(self, tokens: int) -> None:
        """An answer of so many tokens has ended."""
        self.ended += 1
        self.answer = smooth(self.answer, tokens, max(NEWS, 1 / self.ended))

    def of(self, engine: Between, context: float) -> int:
        """Requests that may decode on an engine at a time."""
        if self.slo_tpot is None:
            return self.most
        target = MARGIN * self.slo_tpot
        alone, helped = (most_answers(each, target, context) for each in (engine.alone, engine.helped))
        if not engine.both_known:
            least = most = alone or helped or self.most
        else:
            least = alone or self.most
            most = max(least, helped or int(2 * engine.helped.answers))
        while least < most:
            middle = (least + most + 1) // 2
            if self._seconds(engine, middle, context) <= target:
                least = middle
            else:
                most = middle - 1
        return min(self.most, least)

    def _seconds(self, engine: Between, answers: int, context: float) -> float:
        """A token of each of so many answers, at the pace of the target, or as fast as can be.

        Every answer has a prompt: so much is to be computed meanwhile, and for so long nobody helps. While
        nothing is known of that, it is not held against anybody.
        """
        tokens, alone = Answers(answers, round(answers * context)), 0.0
        pace = self.slo_tpot or decode_seconds(engine.alone, tokens)
        if pace and self.answer and self.prompts:
            prompt = self.seconds / self.prompts
            alone = min(1.0, answers * prompt / self.answer / pace)
        return token_seconds(engine, tokens, alone)

    def on(self, engines: Iterable[Between], running: Answers) -> int:
        """Requests that may decode on all of them at a time, given what those that run are like."""
        return sum(self.of(engine, _context(running)) for engine in engines)

    def ends(self, engine: Between, context: float) -> float:
        """Answers that end in a second on an engine whose slots are all taken; 0 while that is not known."""
        slots = self.of(engine, context)
        seconds = self.answer * self._seconds(engine, slots, context)
        return slots / seconds if seconds else 0.0

    def wait(self, engines: list[Between], running: Answers, waiting: int) -> float:
        """Seconds until a request may start of which `waiting` come before, while others run."""
        ends = sum(self.ends(engine, _context(running)) for engine in engines)
        return slot_wait(waiting, self.on(engines, running) - running.count, ends)


def _context(running: Answers) -> float:
    """Tokens of context of one of those that run, in the mean."""
    return running.context / running.count if running.count else 0.0
