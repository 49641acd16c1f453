"""What is known of one answer: when its tokens came, how many they were, and how it ended."""

from __future__ import annotations

from itertools import pairwise

import msgspec

from twinfer.bench.serve.workload import Job

REFUSED = "refused"
"""The kind of failure of a 429."""

STOPPED = "stopped"
"""The kind of failure of a request that the client gave up."""


class Answer(msgspec.Struct):
    """Times are in seconds of one monotonic clock, 0 where not reached.

    stamps       arrival of each event that brought tokens
    last         arrival of the last event with a choice; the last token came with it
    failure      what kind of failure it was; empty while none is known
    ended        when nothing more was to come, or the failure was known
    tokens       of the answer, as the server counted them at the end, else the events
    """

    job: Job
    due: float
    sent: float
    stamps: list[float] = []
    last: float = 0.0
    ended: float = 0.0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    tokens: int = 0
    failure: str = ""
    message: str = ""

    @property
    def completed(self) -> bool:
        return self.ended > 0 and not self.failure

    @property
    def first(self) -> float:
        """Arrival of the first token; of the last event where no token has a text of its own."""
        return self.stamps[0] if self.stamps else self.last

    @property
    def ttft(self) -> float:
        """Seconds from sending to the first token."""
        return self.first - self.sent

    @property
    def tpot(self) -> float | None:
        """Mean seconds between tokens after the first; None with fewer than two."""
        return (self.last - self.first) / (self.tokens - 1) if self.tokens > 1 else None

    @property
    def itl(self) -> list[float]:
        """Seconds between events that brought tokens."""
        return [later - earlier for earlier, later in pairwise(self.stamps)]

    @property
    def e2e(self) -> float:
        """Seconds from sending to the end of the stream."""
        return self.ended - self.sent
