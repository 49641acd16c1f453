"""The real HTTP server in a thread."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tests.processes import PATIENCE
from twinfer.api import listen
from twinfer.api.access import Access
from twinfer.api.app import build_app
from twinfer.api.limits import Limits
from twinfer.api.run import Server, configure
from twinfer.api.tls import Certificate

from .http_fake import FakeService


@contextmanager
def serving(
    service: FakeService,
    limits: Limits | None = None,
    access: Access | None = None,
    certificate: Certificate | None = None,
) -> Iterator[str]:
    """Its address."""
    bound = listen.bind("127.0.0.1", 0)
    limits = limits or Limits()
    app = build_app(service, limits, access or Access())
    started = threading.Event()
    server = Server(configure(app, limits, certificate), started.set)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
    thread.start()
    assert started.wait(PATIENCE)
    try:
        yield listen.url(bound, tls=certificate is not None)
    finally:
        server.should_exit = True
        thread.join(PATIENCE)
    assert not thread.is_alive()


def connect(address: str, receive_buffer: int | None = None) -> socket.socket:
    """A bare connection; with a `receive_buffer`, the kernel holds hardly more than that unread."""
    host, port = address.split("://")[1].split(":")
    connection = socket.socket()
    if receive_buffer is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    connection.settimeout(PATIENCE)
    connection.connect((host, int(port)))
    return connection


def read_all(connection: socket.socket) -> bytes:
    """Everything until the server closes."""
    data = b""
    try:
        while piece := connection.recv(1 << 16):
            data += piece
    except ConnectionResetError:
        pass
    return data
