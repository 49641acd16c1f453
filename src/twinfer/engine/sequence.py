"""A request as an engine holds it: tokens still to compute, and where its KV goes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from twinfer.messages import Decode, Finish, Prefill, Task
from twinfer.policy.batching import Item
from twinfer.policy.pacing import Pace


class Sequence:
    """`tokens` are those whose KV is missing, at positions from `computed` on; `pages` is the page table.

    The table has room for all pages that the request can ever get, so that a grant is an assignment; those it
    has are `granted`, `stamped` with what they were leased under.
    `written` tokens of the answer were sampled here since the time `since`.
    """

    def __init__(self, start: Prefill | Decode, page_tokens: int, since: float = 0.0) -> None:
        self.request = start.request
        self.since = since
        self.written = 0
        self.task: Task = start.task
        self.chunk = start.chunk if isinstance(start, Prefill) else 0
        self.computed = start.computed
        self.tokens: NDArray[np.int32] = np.array(start.tokens, np.int32)
        self._sampled: NDArray[np.int32] = np.zeros(1, np.int32)
        self.page_tokens = page_tokens
        most = max(-(-start.task.max_length // page_tokens), len(start.pages))
        self.pages: NDArray[np.int32] = np.zeros(most, np.int32)
        self.stamps: NDArray[np.uint32] = np.zeros(most, np.uint32)
        self.held = 0
        self.grant(start.pages, start.stamps)

    def grant(self, pages: list[int], stamps: list[int]) -> None:
        """Append pages to the table, with the stamps under which they are leased."""
        end = self.held + len(pages)
        self.pages[self.held : end] = pages
        self.stamps[self.held : end] = stamps
        self.held = end
        self.granted, self.stamped = self.pages[:end], self.stamps[:end]

    def owns_pages(self, stamps: NDArray[np.uint32]) -> bool:
        """Whether its pages still carry the stamps that they were leased under."""
        return bool((stamps[self.granted] == self.stamped).all())

    @property
    def pace(self) -> Pace:
        """What the pacing policy sees of it."""
        return Pace(self.since, self.written)

    @property
    def item(self) -> Item:
        """What the batching policy sees of it."""
        room = self.held * self.page_tokens - self.computed
        task = self.task
        pending, chunk = len(self.tokens), self.chunk
        return Item(self.request, pending, room, task.arrived, task.priority, task.due, chunk)

    def advance(self, count: int) -> None:
        """`count` tokens have been computed."""
        self.tokens = self.tokens[count:]
        self.computed += count

    def append(self, token: int) -> Finish:
        """Take the sampled `token`, to be computed next; says whether the answer ends with it."""
        self.written += 1
        self._sampled[0] = token
        self.tokens = self._sampled
        if token in self.task.stop_tokens:
            return Finish.STOP
        return Finish.LENGTH if self.computed + 1 >= self.task.max_length else Finish.NONE
