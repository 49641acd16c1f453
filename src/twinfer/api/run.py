"""Running the server: from a bound socket to the last answer after SIGINT or SIGTERM."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import signal
import socket
from collections.abc import Callable, Generator
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any, TypeVar, cast

import uvicorn
import uvloop
from starlette.applications import Starlette

from twinfer.api.access import Access
from twinfer.api.app import build_app
from twinfer.api.connection import Connection
from twinfer.api.limits import Limits
from twinfer.api.listen import start_listening
from twinfer.api.live import Live
from twinfer.api.service import Service
from twinfer.api.tls import Certificate

LAST_WORDS = 1.0
"""Seconds for clients to hear of the end, once their answers were cut short."""

FILES_BESIDES = 256
"""Open files that are not clients' connections."""

S = TypeVar("S", bound=Service)


def run(
    opening: Callable[[], AbstractAsyncContextManager[S]],
    bound: socket.socket,
    on_ready: Callable[[S], None],
    *,
    limits: Limits,
    access: Access,
    certificate: Certificate | None = None,
) -> None:
    """Open the service, serve it on `bound`, and close it after SIGINT or SIGTERM.

    After the first signal new requests are refused, and answers under way may end within
    `limits.shutdown_timeout`; after a second one they are cut short. `on_ready` is called once
    connections are accepted.

    Raises:
        TwinferError: the service cannot be opened, or the port was taken meanwhile.
    """
    _allow_files(limits.max_connections + FILES_BESIDES)
    uvloop.run(_serve(opening, bound, on_ready, limits, access, certificate))


class Server(uvicorn.Server):
    """uvicorn, leaving signals to us and telling when it accepts connections."""

    def __init__(self, config: uvicorn.Config, on_started: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_started = on_started

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        """Take no signals."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen."""
        for each in sockets or []:
            start_listening(each)
        await super().startup(sockets)
        self._on_started()

    def drop_connections(self) -> None:
        """Close what is still open, whether the other side has read everything or not."""
        for connection in list(self.server_state.connections):
            connection.transport.abort()


def configure(app: Starlette, limits: Limits, certificate: Certificate | None = None) -> uvicorn.Config:
    """How uvicorn is to serve `app`: quietly, and with our limits on connections."""
    connection = partial(Connection, limits, app.state.responses.count)
    return uvicorn.Config(
        app,
        http=cast("Any", connection),
        lifespan="off",
        ws="none",
        access_log=False,
        log_level="error",
        server_header=False,
        timeout_keep_alive=60,
        timeout_graceful_shutdown=60,
        ssl_certfile=certificate and certificate.certfile,
        ssl_keyfile=certificate and certificate.keyfile,
    )


def _allow_files(count: int) -> None:
    """Let this process have so many open files, or as many as it may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = count if hard == resource.RLIM_INFINITY else min(count, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


async def _serve(
    opening: Callable[[], AbstractAsyncContextManager[S]],
    bound: socket.socket,
    on_ready: Callable[[S], None],
    limits: Limits,
    access: Access,
    certificate: Certificate | None,
) -> None:
    stop = _Stop(asyncio.current_task(), limits.shutdown_timeout)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    try:
        async with opening() as service:
            app = build_app(service, limits, access)
            server = Server(configure(app, limits, certificate), lambda: on_ready(service))
            stop.serving(server, app)
            await server.serve(sockets=[bound])
    except asyncio.CancelledError:
        if not stop.asked:
            raise
    finally:
        bound.close()


class _Stop:
    """What a signal does, depending on how far we are."""

    def __init__(self, starting: asyncio.Task[None] | None, timeout: float) -> None:
        self.asked = False
        self._starting = starting
        self._timeout = timeout
        self._server: Server | None = None
        self._app: Starlette
        self._waiting: asyncio.Task[None] | None = None

    def serving(self, server: Server, app: Starlette) -> None:
        """From now on `server` is to be stopped, and not the start."""
        self._server = server
        self._app = app

    def __call__(self) -> None:
        if self._server is None:
            if self._starting is not None:
                self._starting.cancel()
        elif not self.asked:
            self._app.state.stopping = True
            self._waiting = asyncio.create_task(self._let_end(self._server))
        elif self._waiting is not None:
            self._waiting.cancel()
        self.asked = True

    async def _let_end(self, server: Server) -> None:
        """Wait for the answers under way, cut short what is left, and make the server return."""
        live: Live = self._app.state.live
        with contextlib.suppress(asyncio.CancelledError, asyncio.TimeoutError):
            await asyncio.wait_for(live.ended(), self._timeout)
        live.cut_short()
        server.should_exit = True
        asyncio.get_running_loop().call_later(LAST_WORDS, server.drop_connections)
