"""Which cached page is given up: the one whose content is worth least.

GreedyDual with frequency (Cao and Irani 1997, Cherkasova 1998) over pages of one size: a page is worth what
computing it again costs, times the leases that it was in, on top of what the last page given up was worth.
So what nobody asks for any more falls behind by and by, and where costs and uses are equal the least
recently used page goes first. A page is of no use without those before it, so these are worth as much as it
is, and the ends of chains go first.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heappush

DOUBLED = 100.0
"""Pages before one at which attention to them costs as much as the rest of computing it: 1,600 tokens as
measured with the default model. Larger models have more; little depends on it."""

MOST_USES = 8
"""Leases that count, so that a page that everybody asked for once does not stay for ever."""


class CachedPages:
    """Pages that may be given up, and the worth of these and of others whose content is known.

    Adding, taking and evicting a page are O(log n). With `doubled` infinite and `most_uses` 1, all pages
    cost the same, and the least recently used one goes first.
    """

    def __init__(self, doubled: float = DOUBLED, most_uses: int = MOST_USES) -> None:
        self._doubled = doubled
        self._most_uses = most_uses
        self._level = 0.0  # worth of the last page evicted
        self._worth: dict[int, float] = {}
        self._uses: dict[int, int] = {}
        self._entries: dict[int, int] = {}  # page -> the number of its entry in the heap; others are void
        self._heap: list[tuple[float, int, int]] = []  # worth, number, page
        self._numbers = 0

    def __len__(self) -> int:
        """How many may be given up."""
        return len(self._entries)

    def __iter__(self) -> Iterator[int]:
        """The pages that may be given up, in no order."""
        return iter(self._entries)

    def __contains__(self, page: int) -> bool:
        """Whether the page may be given up."""
        return page in self._entries

    def renew(self, page: int, place: int, later: float) -> float:
        """A lease ends that had the known content of `page` at `place`, counted from 0; its worth now.

        `later` is what the page after it in that lease is worth.
        """
        uses = min(self._uses.setdefault(page, 1), self._most_uses)
        worth = self._level + uses * (1 + (place + 0.5) / self._doubled)
        self._worth[page] = max(worth, later, self._worth.get(page, 0.0))
        if page in self._entries:
            self.add(page)
        return self._worth[page]

    def add(self, page: int) -> None:
        """No lease has the page any more; its worth is known."""
        self._numbers += 1
        self._entries[page] = self._numbers
        heappush(self._heap, (self._worth[page], self._numbers, page))
        if len(self._heap) > 2 * len(self._entries) + 64:
            self._heap = [entry for entry in self._heap if self._entries.get(entry[2]) == entry[1]]
            heapify(self._heap)

    def use(self, page: int) -> None:
        """One lease more has the page."""
        self._entries.pop(page, None)
        self._uses[page] = self._uses.get(page, 1) + 1

    def forget(self, page: int) -> None:
        """Its content is not known any more."""
        self._entries.pop(page, None)
        self._worth.pop(page, None)
        self._uses.pop(page, None)

    def evict(self) -> int:
        """Give up the page that is worth least; there must be one."""
        while True:
            worth, number, page = heappop(self._heap)
            if self._entries.get(page) == number:
                self._level = worth
                self.forget(page)
                return page
