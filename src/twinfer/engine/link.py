"""The engine's end of the socket to its router."""

from __future__ import annotations

import os
import select
import threading

import msgspec
import zmq
from zmq.utils.monitor import recv_monitor_message

from twinfer.messages import LINK_LOST, MAX_FRAME, FromEngine, ToEngine, decode


class Link:
    """Connects to `endpoint` under `address`, by which the router knows this process."""

    def __init__(self, endpoint: str, address: str) -> None:
        self._context = zmq.Context(io_threads=1)
        self._socket = self._context.socket(zmq.DEALER)
        self._socket.linger = 1000
        self._socket.sndhwm = self._socket.rcvhwm = 0
        self._socket.maxmsgsize = MAX_FRAME
        self._socket.identity = address.encode()
        self._socket.connect(endpoint)
        self._encoder = msgspec.msgpack.Encoder()
        self._decoder = msgspec.msgpack.Decoder(ToEngine)

    def send(self, message: FromEngine) -> None:
        """Queue a message for the router."""
        self._socket.send(self._encoder.encode(message))

    def watch(self) -> None:
        """End this process when the link is cut, from now on: what was lost with it cannot be known."""
        monitor = self._socket.get_monitor_socket(zmq.EVENT_DISCONNECTED)

        def wait() -> None:
            try:
                recv_monitor_message(monitor)
            except zmq.ContextTerminated:
                monitor.close()
            else:
                os._exit(LINK_LOST)

        threading.Thread(target=wait, name="link", daemon=True).start()

    def receive(self, seconds: float | None) -> list[ToEngine]:
        """All messages that have come; if none has, sleep until one does, for about so long at most.

        Raises:
            BadMessageError: a frame is no message.
        """
        messages = self._take_all()
        if not messages and seconds != 0:
            self._sleep(seconds)
            messages = self._take_all()
        return messages

    def _take_all(self) -> list[ToEngine]:
        messages: list[ToEngine] = []
        while int(self._socket.getsockopt(zmq.EVENTS)) & zmq.POLLIN:
            messages.append(decode(self._decoder, self._socket.recv(zmq.NOBLOCK)))
        return messages

    def _sleep(self, seconds: float | None) -> None:
        """Not by polling, which knows whole milliseconds only."""
        select.select([self._socket], [], [], seconds)

    def close(self) -> None:
        """Send what is queued and close."""
        self._socket.close()
        self._context.term()
