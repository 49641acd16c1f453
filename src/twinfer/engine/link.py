"""The engine's end of the socket to its router."""

from __future__ import annotations

import msgspec
import zmq

from twinfer.messages import FromEngine, ToEngine


class Link:
    """Connects to `endpoint` under `address`, by which the router knows this process."""

    def __init__(self, endpoint: str, address: str) -> None:
        self._context = zmq.Context(io_threads=1)
        self._socket = self._context.socket(zmq.DEALER)
        self._socket.linger = 1000
        self._socket.sndhwm = self._socket.rcvhwm = 0
        self._socket.identity = address.encode()
        self._socket.connect(endpoint)
        self._encoder = msgspec.msgpack.Encoder()
        self._decoder = msgspec.msgpack.Decoder(ToEngine)

    def send(self, message: FromEngine) -> None:
        """Queue a message for the router."""
        self._socket.send(self._encoder.encode(message))

    def receive(self, *, wait: bool) -> list[ToEngine]:
        """All messages that have come; with `wait`, sleep until there is one."""
        messages: list[ToEngine] = []
        while True:
            try:
                frame = self._socket.recv(0 if wait and not messages else zmq.NOBLOCK)
            except zmq.Again:
                return messages
            messages.append(self._decoder.decode(frame))

    def close(self) -> None:
        """Send what is queued and close."""
        self._socket.close()
        self._context.term()
