"""Who holds which page of the pool, and what is in those that nobody holds: plain integers, no memory.

A page is free, or in the leases of one or more requests, or cached: in no lease, but full of KV that is
known by its key, so that a later request may take it up again. `check` verifies just that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence, Set
from typing import Protocol

from twinfer.policy.eviction import CachedPages

STAMP_MASK = (1 << 32) - 1


class Stamps(Protocol):
    """A number for each page, in memory that others may read."""

    def __getitem__(self, page: int, /) -> int: ...
    def __setitem__(self, page: int, value: int, /) -> None: ...


class PageLedger:
    """The accounting of `total` pages, numbered from 0. A lease is a request's page table, in order.

    A page that several leases share is full, and is never written again.
    """

    def __init__(self, total: int, stamps: Stamps | None = None, cached: CachedPages | None = None) -> None:
        """`stamps` counts, for each page, how often it was granted. It is written, and never read again.

        `cached` decides which pages are given up first.
        """
        self.total = total
        self._board: Stamps = stamps if stamps is not None else [0] * total
        self._stamps = [0] * total
        self.evictions = 0
        self.reached = 0  # pages from this one on were never granted
        self._free = list(range(total - 1, -1, -1))
        self._leases: dict[int, list[int]] = {}
        self._named: dict[int, Sequence[bytes]] = {}  # keys of the first pages of leases
        self._holders: dict[int, int] = {}  # page -> leases it is in
        self._pages: dict[bytes, int] = {}  # key -> page
        self._keys: dict[int, bytes] = {}  # page -> key
        self._cached = CachedPages() if cached is None else cached  # in no lease

    @property
    def free(self) -> int:
        """Pages that can be granted: free ones, and cached ones, whose content is given up."""
        return len(self._free) + len(self._cached)

    @property
    def cached(self) -> int:
        """Pages in no lease whose content is known."""
        return len(self._cached)

    @property
    def leases(self) -> int:
        """Requests that hold pages."""
        return len(self._leases)

    @property
    def lessees(self) -> Set[int]:
        """The requests that hold pages."""
        return self._leases.keys()

    @property
    def shared(self) -> set[int]:
        """Pages in more than one lease."""
        return {page for page, holders in self._holders.items() if holders > 1}

    def lease(self, request: int) -> list[int]:
        """The request's page table, from position 0; empty when it holds none."""
        return list(self._leases.get(request, ()))

    def stamps(self, pages: Sequence[int]) -> list[int]:
        """The stamps under which these pages were granted."""
        return [self._stamps[page] for page in pages]

    def held(self, request: int) -> int:
        """How many pages the request holds."""
        return len(self._leases.get(request, ()))

    def find(self, keys: Sequence[bytes]) -> list[int]:
        """The pages of the longest run of `keys`, from the first on, whose content is there."""
        found: list[int] = []
        for key in keys:
            page = self._pages.get(key)
            if page is None:
                break
            found.append(page)
        return found

    def cost(self, pages: Sequence[int]) -> int:
        """By how much `share` of these pages lowers `free`: those that no lease holds yet."""
        return sum(page in self._cached for page in pages)

    def share(self, request: int, pages: Sequence[int]) -> None:
        """Add pages from `find` to the request's lease."""
        for page in pages:
            self._cached.use(page)
            self._holders[page] = self._holders.get(page, 0) + 1
        self._leases.setdefault(request, []).extend(pages)

    def grant(self, request: int, count: int) -> list[int]:
        """Add `count` fresh pages to the request's lease and return them; none when too few are free.

        Cached pages are given up when free ones run out, those that are worth least first.
        """
        if count <= 0 or count > self.free:
            return []
        pages = [self._free.pop() if self._free else self._evict() for _ in range(count)]
        self.reached = max(self.reached, max(pages) + 1)
        for page in pages:
            self._holders[page] = 1
            self._stamps[page] = self._board[page] = (self._stamps[page] + 1) & STAMP_MASK
        self._leases.setdefault(request, []).extend(pages)
        return pages

    def publish(self, request: int, keys: Sequence[bytes]) -> None:
        """The first pages of the request's lease are full, and their content has these keys."""
        lease = self._leases.get(request, [])
        if lease:
            self._named[request] = keys
        for page, key in zip(lease, keys, strict=False):
            if page not in self._keys and key not in self._pages:
                self._keys[page] = key
                self._pages[key] = page

    def distrust(self, request: int) -> None:
        """Forget what is known of the content of the request's pages."""
        for page in self._leases.get(request, ()):
            key = self._keys.pop(page, None)
            if key is not None:
                del self._pages[key]
                self._cached.forget(page)

    def release(self, request: int) -> None:
        """End the request's lease. Idempotent.

        Pages with known content stay cached. What the request had in a page of its own, while another had
        become known for it, counts as used there: its later pages may be known, and need that one.
        """
        named = self._named.pop(request, ())
        lease = self._leases.pop(request, [])
        worth = 0.0
        for place, page in reversed(list(enumerate(lease))):
            self._holders[page] -= 1
            key = self._keys.get(page) or (named[place] if place < len(named) else b"")
            known = self._pages.get(key)
            if known is not None:
                worth = self._cached.renew(known, place, worth)
            if self._holders[page] == 0:
                del self._holders[page]
                if known == page:
                    self._cached.add(page)
                else:
                    self._free.append(page)

    def check(self) -> None:
        """Verify that every page is in exactly one state, and known by its key where it is cached.

        Raises:
            AssertionError: the accounting is broken; the message says how.
        """
        leased = [page for lease in self._leases.values() for page in lease]
        places = [*self._free, *self._cached, *set(leased)]
        if len(places) != self.total or len(set(places)) != self.total:
            raise AssertionError(f"{self.total} pages, but {len(places)} places and {len(set(places))} pages")
        if Counter(leased) != self._holders:
            raise AssertionError("a page has other holders than are counted")
        if {page: key for key, page in self._pages.items()} != self._keys:
            raise AssertionError("keys and pages do not match")
        if not set(self._cached) <= set(self._keys) or set(self._free) & set(self._keys):
            raise AssertionError("a cached page has no key, or a free page has one")

    def _evict(self) -> int:
        page = self._cached.evict()
        del self._pages[self._keys.pop(page)]
        self.evictions += 1
        return page


def pages_for(tokens: int, page_tokens: int) -> int:
    """Pages that hold the KV of `tokens` tokens."""
    return -(-tokens // page_tokens)
