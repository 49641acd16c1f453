"""A request's pages: how many it needs, which of them are in the cache, and giving them up.

It knows requests and pages; who runs where is `core`'s to decide.
"""

from __future__ import annotations

import msgspec

from twinfer.policy.admission import Room, admits
from twinfer.policy.pages import PageLedger, pages_for
from twinfer.policy.prefix import chain_root, common, extend_chain
from twinfer.policy.sharing import worth_waiting
from twinfer.router.request import Request


class Cache(msgspec.Struct, frozen=True):
    """Which KV may be taken up again, and by whom.

    Pages are shared among requests whose KV is computed alike: `root` names model and precision; with
    None, only the answers of one call share them. Unless both phases have the `same_precision`, pages
    that decode wrote are not offered to prefill, since a cache hit must not change an answer.
    """

    root: str | None = None
    same_precision: bool = True


class Memory:
    """The pool's pages, `page_tokens` tokens each, as requests use them."""

    def __init__(self, ledger: PageLedger, page_tokens: int, cache: Cache) -> None:
        self.ledger = ledger
        self.starved: dict[int, Request] = {}
        self.page_tokens = page_tokens
        self._cache = cache

    def prefilled(self, request: Request) -> int:
        """How many of its tokens prefill computes: the answer's too where decode would do the same."""
        return len(request.tokens) if self._cache.same_precision else request.prompt_tokens

    def wants_prefill(self, request: Request) -> bool:
        """Whether prefill is to go on with it, rather than decode."""
        if self._cache.same_precision:
            return not request.begun or len(request.tokens) - request.computed > 1
        return request.computed < request.prompt_tokens

    def foresee(self, request: Request) -> None:
        """Note how much of a request without pages is in the cache now."""
        request.known = len(self._find_prefix(request)) * self.page_tokens

    def admit(self, request: Request, running: int, slots: int) -> bool:
        """Lease what the request needs to start, cached pages first; False when there is no room."""
        found = self._find_prefix(request)
        fresh = self._ahead(request) - len(found)
        if not admits(fresh + self.ledger.cost(found), Room(self.ledger.free, running, slots)):
            return False
        self.ledger.share(request.id, found)
        self.ledger.grant(request.id, fresh)
        request.computed = len(found) * self.page_tokens
        request.known = 0
        request.cached = request.computed if request.cached is None else request.cached
        request.awaited = 0
        return True

    def waits(self, request: Request, other: Request) -> bool:
        """Whether a request without pages had better wait for the other, whose prompt is being computed."""
        alike = common(self._findable(request), other.keys) * self.page_tokens
        there = min(alike, other.computed // self.page_tokens * self.page_tokens)
        behind = other.turn[0] - request.turn[0]
        waits = worth_waiting(alike - there, self.prefilled(request) - there, behind)
        request.awaited = alike if waits else 0
        return waits

    def lease(self, request: Request) -> tuple[list[int], list[int]]:
        """Its page table, and the pages' stamps."""
        pages = self.ledger.lease(request.id)
        return pages, self.ledger.stamps(pages)

    def grow(self, request: Request) -> list[int]:
        """Grant the pages of its next tokens before they are needed; it is starved when they are short."""
        missing = self._ahead(request) - self.ledger.held(request.id)
        pages = self.ledger.grant(request.id, missing)
        if len(pages) < missing:
            self.starved[request.id] = request
        else:
            self.starved.pop(request.id, None)
        return pages

    def stuck(self) -> list[Request]:
        """Requests whose next token has no page."""
        return [
            request
            for request in self.starved.values()
            if pages_for(len(request.tokens), self.page_tokens) > self.ledger.held(request.id)
        ]

    def publish(self, request: Request) -> None:
        """Let others find the pages that are full."""
        known = min(request.computed, self.prefilled(request))
        self._name_pages(request, known)
        self.ledger.publish(request.id, request.keys[: known // self.page_tokens])

    def give_up(self, request: Request) -> None:
        """End its lease. What is known of its pages stays for others."""
        self.starved.pop(request.id, None)
        self.publish(request)
        self.ledger.release(request.id)
        request.given_up = max(request.given_up, request.computed)
        request.computed = 0

    def forget(self, request: Request) -> None:
        """End its lease, and trust nothing that is in its pages."""
        request.given_up = request.computed
        request.computed = 0
        self.ledger.distrust(request.id)
        self.give_up(request)

    def _ahead(self, request: Request) -> int:
        """Pages for what the request has and one page's worth of tokens more, if it may get so long."""
        return pages_for(min(len(request.tokens) + self.page_tokens, request.max_length), self.page_tokens)

    def _find_prefix(self, request: Request) -> list[int]:
        """Pages that hold the beginning of what prefill has to compute."""
        return self.ledger.find(self._findable(request))

    def _findable(self, request: Request) -> list[bytes]:
        """The keys of what prefill has to compute, as far as it may be found: a token is left to compute."""
        self._name_pages(request, self.prefilled(request))
        return request.keys[: (self.prefilled(request) - 1) // self.page_tokens]

    def _name_pages(self, request: Request, known: int) -> None:
        generation = request.generation
        if len(request.keys) >= known // self.page_tokens:
            return
        if self._cache.root is not None:
            root = chain_root(self._cache.root, generation.cache_salt)
        elif generation.family:
            root = chain_root(generation.family, generation.cache_salt)
        else:
            return
        extend_chain(request.keys, root, request.tokens[:known], self.page_tokens)
