"""How many requests may decode at a time, and how long one waits until it may."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from twinfer.policy.costs import decode_seconds, most_batch, smooth
from twinfer.policy.overload import slot_wait
from twinfer.policy.pacing import MARGIN
from twinfer.router.engines import EngineView

NEWS = 0.05
"""What one more answer counts for in the mean length, at least."""


class Slots(msgspec.Struct):
    """At most `most` requests decode on one engine, and no more than keep `slo_tpot`.

    `ended` answers have ended; `answer` is the tokens of a usual one, 0 until then.
    """

    most: int
    slo_tpot: float | None = None
    ended: int = 0
    answer: float = 0.0

    def count(self, tokens: int) -> None:
        """An answer of so many tokens has ended."""
        self.ended += 1
        self.answer = smooth(self.answer, tokens, max(NEWS, 1 / self.ended))

    def of(self, engine: EngineView) -> int:
        """Requests that may decode there at a time."""
        if self.slo_tpot is None:
            return self.most
        most = most_batch(engine.between, MARGIN * self.slo_tpot)
        return self.most if most is None else min(self.most, most)

    def wait(self, engines: Collection[EngineView], running: int, waiting: int) -> float:
        """Seconds until a request may start of which `waiting` come before, while `running` have."""
        slots = [(self.of(engine), engine) for engine in engines]
        ends = sum(
            slot / (self.answer * seconds)
            for slot, engine in slots
            if (seconds := decode_seconds(engine.between, slot)) and self.answer
        )
        return slot_wait(waiting, sum(slot for slot, _ in slots) - running, ends)
