"""How one task waits for what others have for it, at little cost: this happens for every token."""

from __future__ import annotations

import asyncio


class News:
    """For one task at a time, which looks for what it wants before it waits."""

    def __init__(self) -> None:
        self._awaited: asyncio.Future[None] | None = None

    def coming(self) -> asyncio.Future[None]:
        """To be awaited: done at the next `tell`."""
        self._awaited = asyncio.get_running_loop().create_future()
        return self._awaited

    def tell(self) -> None:
        """Wake who waits, if anybody does."""
        if self._awaited is not None and not self._awaited.done():
            self._awaited.set_result(None)
