"""A client's hold on its request: tokens as they come, the end, and the way to give up."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

from twinfer.errors import EngineError
from twinfer.router.news import News
from twinfer.router.request import Request
from twinfer.timeline import Timeline


class Ticket:
    """One running request, as its client sees it.

    Iterating gives lists of new tokens, at least one each, the end token included; tokens that came
    since the last look are given together. Lives in the router's event loop.
    """

    def __init__(self) -> None:
        self._fresh: list[int] = []
        self._news = News()
        self._request: Request | None = None
        self._cancel: Callable[[str], None] = lambda reason: None
        self._timer: asyncio.TimerHandle | None = None

    def bind(self, request: Request, cancel: Callable[[str], None]) -> None:
        """Attach the request whose `on_tokens` and `on_end` are this ticket's, and what gives it up.

        `cancel` is called with the finish reason.
        """
        self._request = request
        self._cancel = cancel

    def on_token(self, token: int) -> None:
        """The router has a new token."""
        self._fresh.append(token)
        self._news.tell()

    def on_end(self) -> None:
        """The router has ended the request."""
        if self._timer is not None:
            self._timer.cancel()
        self._news.tell()

    def expire_after(self, seconds: float) -> None:
        """End the request after so long, with the finish reason "timeout"."""
        if self.finish_reason is None:
            self._timer = asyncio.get_running_loop().call_later(seconds, self._cancel, "timeout")

    @property
    def request(self) -> Request:
        """The request behind the ticket."""
        assert self._request is not None
        return self._request

    @property
    def finish_reason(self) -> str | None:
        """ "stop", "length", "timeout", "cancelled" or "error"; None while the request runs."""
        return self.request.finish_reason

    @property
    def timeline(self) -> Timeline:
        """The request's timestamps so far."""
        return self.request.timeline

    @property
    def cached_tokens(self) -> int:
        """Tokens of the prompt whose KV was found in the cache."""
        return self.request.cached or 0

    def cancel(self) -> None:
        """Give the request up. Idempotent; its pages are free within two steps."""
        self._cancel("cancelled")

    async def __aiter__(self) -> AsyncIterator[list[int]]:
        """Lists of new tokens until the request ends.

        Raises:
            EngineError: the request was lost; the message says why.
        """
        while True:
            if self._fresh:
                tokens, self._fresh = self._fresh, []
                yield tokens
                continue
            if self.finish_reason is not None:
                break
            await self._news.coming()
        if self.request.error is not None:
            raise EngineError(self.request.error)
