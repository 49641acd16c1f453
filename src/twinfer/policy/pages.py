"""Who holds which page of the pool: plain integers, no memory.

Every page is either free or in exactly one request's lease; `check` verifies just that.
"""

from __future__ import annotations


class PageLedger:
    """The accounting of `total` pages, numbered from 0. A lease is a request's page table, in order."""

    def __init__(self, total: int) -> None:
        self.total = total
        self._free = list(range(total - 1, -1, -1))
        self._leases: dict[int, list[int]] = {}

    @property
    def free(self) -> int:
        """Pages in no lease."""
        return len(self._free)

    @property
    def leases(self) -> int:
        """Requests that hold pages."""
        return len(self._leases)

    def lease(self, request: int) -> list[int]:
        """The request's page table, from position 0; empty when it holds none."""
        return list(self._leases.get(request, ()))

    def held(self, request: int) -> int:
        """How many pages the request holds."""
        return len(self._leases.get(request, ()))

    def grant(self, request: int, count: int) -> list[int]:
        """Add `count` pages to the request's lease and return them; none at all when too few are free."""
        if count <= 0 or count > len(self._free):
            return []
        pages = [self._free.pop() for _ in range(count)]
        self._leases.setdefault(request, []).extend(pages)
        return pages

    def release(self, request: int) -> None:
        """End the request's lease. Idempotent."""
        self._free.extend(reversed(self._leases.pop(request, [])))

    def check(self) -> None:
        """Verify that every page is in exactly one place.

        Raises:
            AssertionError: the accounting is broken; the message says how.
        """
        places = self._free + [page for lease in self._leases.values() for page in lease]
        if len(places) != self.total:
            raise AssertionError(f"{self.total} pages, but {len(places)} accounted for")
        if len(set(places)) != self.total:
            raise AssertionError("a page is in two places")


def pages_for(tokens: int, page_tokens: int) -> int:
    """Pages that hold the KV of `tokens` tokens."""
    return -(-tokens // page_tokens)
