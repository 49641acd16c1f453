"""A client's connection: uvicorn's, with an end to clients that are slow, endless or too many.

A request's head must come within a time and a size, its body within a time (its size is the application's
to limit), and what is sent must be read within a time, so that no client can hold memory or a place for
long by being slow. Refusals here are for requests that never reach the application.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, NoReturn, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from twinfer.api import failures
from twinfer.api.limits import Limits

MOST_PIPELINED = 16
"""Requests that may wait for the one before them on their connection."""


class _Fault(Exception):
    """Raised within the parser, which passes it on as an error of its own."""


class Connection(HttpToolsProtocol):
    """One connection. `count` hears of the status of each refusal sent.

    A request's state has as `send` what sends straight to its client, past all layers of the application.
    """

    def __init__(self, limits: Limits, count: Callable[[int], None], **options: Any) -> None:
        super().__init__(**options)
        self._limits = limits
        self._count = count
        self._reading: asyncio.TimerHandle | None = None
        self._sending: asyncio.TimerHandle | None = None
        self._fault: tuple[int, str] | None = None
        self._unparsed = 0
        self._head = 0
        self._open: list[RequestResponseCycle] = []

    # Receiving

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client has connected."""
        super().connection_made(transport)
        if len(self.connections) > self._limits.max_connections:
            self._refuse(
                503, f"there are {self._limits.max_connections} connections already, the most allowed"
            )
        else:
            self._expect_more()

    def data_received(self, data: bytes) -> None:
        """Bytes have come."""
        if self.transport.is_closing():
            return
        if self._reading is None:
            self._expect_more()
        self._unparsed += len(data)
        super().data_received(data)
        if self._unparsed > self._limits.max_header_size and not self.transport.is_closing():
            self._refuse(*self._too_large)

    def on_message_begin(self) -> None:
        """A request's first bytes."""
        super().on_message_begin()
        self._head = 0
        if not self.flow.write_paused:
            self._stop_watching()
        if self._reading is None:
            self._expect_more()

    def on_url(self, url: bytes) -> None:
        """A piece of the request's target."""
        self._measure(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header, or a trailer after the body."""
        self._measure(len(name) + len(value))
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """The head is there; the application begins."""
        if len(self.pipeline) >= MOST_PIPELINED:
            self._fail(400, f"more than {MOST_PIPELINED} requests wait on this connection")
        self._expect_more()
        super().on_headers_complete()
        self.scope.setdefault("state", {})["send"] = self.cycle.send
        self._open = [cycle for cycle in self._open if not cycle.response_complete]
        self._open.append(self.cycle)

    def on_body(self, body: bytes) -> None:
        """A piece of the body."""
        self._unparsed = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The request is there as a whole."""
        self._unparsed = 0
        self._expect_nothing()
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """What uvicorn has to say to a request that it cannot read."""
        self._refuse(*self._fault or (400, "this is not a valid HTTP request"))

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is gone."""
        for cycle in self._open:  # uvicorn itself tells only the last one
            if not cycle.response_complete:
                cycle.disconnected = True
                cycle.message_event.set()
        self._expect_nothing()
        self._stop_watching()
        super().connection_lost(exc)

    @property
    def _current(self) -> RequestResponseCycle | None:
        return cast("RequestResponseCycle | None", self.cycle)  # None before the first request

    def _measure(self, size: int) -> None:
        self._head += size
        if self._head > self._limits.max_header_size:
            self._fail(*self._too_large)

    @property
    def _too_large(self) -> tuple[int, str]:
        return 431, f"the request's head is larger than {self._limits.max_header_size} bytes"

    def _fail(self, status: int, message: str) -> NoReturn:
        self._fault = status, message
        raise _Fault

    def _expect_more(self) -> None:
        self._expect_nothing()
        self._reading = self.loop.call_later(self._limits.read_timeout, self._too_slow)

    def _expect_nothing(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None

    def _too_slow(self) -> None:
        self._reading = None
        current = self._current
        answering = current is not None and not current.more_body and not current.response_complete
        if answering or self.flow.read_paused:  # It is we who are not done.
            self._expect_more()
        elif self._unparsed or self._head:
            self._refuse(408, f"the request did not come within {self._limits.read_timeout:g} s")
        else:
            self.transport.close()

    def _refuse(self, status: int, message: str) -> None:
        """End the connection, with an answer unless one is under way."""
        current = self._current
        idle = current is None or (current.response_complete and not current.more_body)
        if idle or (current is not None and not current.response_started):
            body = failures.encode(failures.failure(status, message))
            head = (
                f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\ncontent-type: application/json\r\n"
                f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
            )
            self.transport.write(head.encode() + body)
            self._count(status)
        self._watch_sending()
        self.transport.close()

    # Sending

    def pause_writing(self) -> None:
        """More than the transport wants to hold is waiting to be read by the client."""
        super().pause_writing()
        self._watch_sending()

    def resume_writing(self) -> None:
        """The client has read most of it."""
        self._stop_watching()
        super().resume_writing()

    def on_response_complete(self) -> None:
        """All of an answer has been handed to the transport."""
        super().on_response_complete()
        if self.transport.get_write_buffer_size() and self._sending is None:
            self._watch_sending()

    def _watch_sending(self) -> None:
        self._stop_watching()
        self._sending = self.loop.call_later(self._limits.send_timeout, self._not_read)

    def _stop_watching(self) -> None:
        if self._sending is not None:
            self._sending.cancel()
            self._sending = None

    def _not_read(self) -> None:
        self._sending = None
        if self.flow.write_paused or self.transport.get_write_buffer_size():
            self.transport.abort()
