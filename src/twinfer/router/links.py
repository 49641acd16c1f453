"""The socket between router and engines: one Unix socket, typed MessagePack frames.

An engine introduces itself with its address, which differs for every process, so that a late word
of a process that was replaced is not taken for its successor's.
"""

from __future__ import annotations

import asyncio

import msgspec
import zmq

from twinfer.cluster.folder import PrivateFolder
from twinfer.errors import BadMessageError
from twinfer.messages import MAX_FRAME, FromEngine, ToEngine, decode
from twinfer.router.news import News


class Links:
    """The router's end. `endpoint` is what engines connect to; the folder is readable by the owner only."""

    def __init__(self) -> None:
        self._folder = PrivateFolder()
        self.endpoint = f"ipc://{self._folder.path}/router"
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.ROUTER)
        self._socket.linger = 0
        self._socket.sndhwm = self._socket.rcvhwm = 0
        self._socket.maxmsgsize = MAX_FRAME  # the link of a sender of more is cut before any of it is kept
        self._socket.bind(self.endpoint)
        self._encoder = msgspec.msgpack.Encoder()
        self._decoder = msgspec.msgpack.Decoder(FromEngine)
        self._news = News()
        self._loop: asyncio.AbstractEventLoop | None = None  # that watches the socket

    def send(self, address: str, message: ToEngine) -> None:
        """Queue a message for an engine; one for an engine that is gone is dropped.

        The socket has no high-water mark, so the frame is taken at once and nothing is to be awaited.
        """
        frames = [address.encode(), self._encoder.encode(message)]
        self._socket.send_multipart(frames)
        self._news.tell()  # the socket gives notice only once, and that may have been taken by sending

    async def receive(self) -> tuple[str, FromEngine | BadMessageError]:
        """The next message with its sender's address; in its place the error, where it is none."""
        while (came := self._take()) is None:
            self._watch()
            await self._news.coming()
        address, *frames = came
        sender = address.decode(errors="replace")
        if len(frames) != 1:
            return sender, BadMessageError(f"bad message: {len(frames)} frames instead of one")
        try:
            return sender, decode(self._decoder, frames[0])
        except BadMessageError as error:
            return sender, error

    def _take(self) -> list[bytes] | None:
        try:
            return self._socket.recv_multipart(zmq.NOBLOCK)
        except zmq.Again:
            return None

    def _watch(self) -> None:
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
            self._loop.add_reader(self._socket.fileno(), self._news.tell)

    def close(self) -> None:
        """Close the socket and remove its folder. Idempotent."""
        if self._loop is not None:
            self._loop.remove_reader(self._socket.fileno())
            self._loop = None
        self._socket.close()
        self._context.term()
        self._folder.remove()
