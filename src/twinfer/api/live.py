"""The answers being written, so that they can be waited for and cut short."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from twinfer.api.service import Ticket


class Live:
    """The tickets of all answers under way."""

    def __init__(self) -> None:
        self._tickets: set[Ticket] = set()
        self._none_left = asyncio.Event()

    def add(self, ticket: Ticket) -> None:
        """An answer has begun."""
        self._tickets.add(ticket)

    def remove(self, tickets: Iterable[Ticket]) -> None:
        """Answers have ended, and were sent."""
        self._tickets.difference_update(tickets)
        if not self._tickets:
            self._none_left.set()

    async def ended(self) -> None:
        """Wait until there are none."""
        while self._tickets:
            self._none_left.clear()
            await self._none_left.wait()

    def cut_short(self) -> None:
        """Cancel all; their clients are told."""
        for ticket in list(self._tickets):
            ticket.cancel()
