"""How many requests each client has under way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager

from twinfer.errors import OverloadedError


class Clients:
    """At most `most` requests of one client are answered at a time."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._running: Counter[str] = Counter()

    @contextmanager
    def one_more(self, client: str) -> Generator[None]:
        """Count a request of `client` while it lasts.

        Raises:
            OverloadedError: it has as many already as it may.
        """
        if self._running[client] >= self._most:
            raise OverloadedError(f"this client has {self._most} requests under way already, the most it may")
        self._running[client] += 1
        try:
            yield
        finally:
            self._running[client] -= 1
            if not self._running[client]:
                del self._running[client]
