"""One HTTP exchange over one connection: a request goes out, its answer's body comes in."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import cast

import httptools

Receive = Callable[[int, bytes, float], None]
"""Takes the status, some bytes of the body, and when they arrived."""


class Exchange(asyncio.Protocol):
    """Sends `request` once connected, and hands the body on as it arrives.

    `ended` gets "" when the response is whole, else what went wrong.
    """

    def __init__(self, request: bytes, receive: Receive, ended: asyncio.Future[str]) -> None:
        self.status = 0
        self._request = request
        self._receive = receive
        self._ended = ended
        self._now = 0.0
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport | None = None

    def end(self, failure: str) -> None:
        """Take nothing more, and drop the connection."""
        if not self._ended.done():
            self._ended.set_result(failure)
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if self._ended.done():
            self._transport.abort()
        else:
            self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self._now = time.perf_counter()
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self.end("malformed response")

    def connection_lost(self, exc: Exception | None) -> None:
        self.end("disconnected")

    # The parser calls these.

    def on_headers_complete(self) -> None:
        self.status = self._parser.get_status_code()

    def on_body(self, body: bytes) -> None:
        if not self._ended.done():
            self._receive(self.status, body, self._now)

    def on_message_complete(self) -> None:
        if self.status >= 200:
            self.end("")
