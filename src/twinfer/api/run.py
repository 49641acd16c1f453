"""Running the server: from a bound socket to the last answer after SIGINT or SIGTERM."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
from collections.abc import Callable, Generator
from contextlib import AbstractAsyncContextManager
from typing import TypeVar

import uvicorn
import uvloop
from starlette.applications import Starlette

from twinfer.api.app import build_app
from twinfer.api.listen import start_listening
from twinfer.api.service import Service, Ticket

GRACE = 5
"""Seconds that answers under way are given when the server stops."""

S = TypeVar("S", bound=Service)


def run(
    opening: Callable[[], AbstractAsyncContextManager[S]],
    bound: socket.socket,
    on_ready: Callable[[S], None],
) -> None:
    """Open the service, serve it on `bound`, and close it after SIGINT or SIGTERM.

    The first signal lets answers under way end, for `GRACE` seconds; a second one does not.
    `on_ready` is called once connections are accepted.

    Raises:
        TwinferError: the service cannot be opened, or the port was taken meanwhile.
    """
    uvloop.run(_serve(opening, bound, on_ready))


class _Server(uvicorn.Server):
    """uvicorn, leaving signals to us and telling when it accepts connections."""

    def __init__(self, config: uvicorn.Config, on_started: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_started = on_started

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        for each in sockets or []:
            start_listening(each)
        await super().startup(sockets)
        self._on_started()


async def _serve(
    opening: Callable[[], AbstractAsyncContextManager[S]],
    bound: socket.socket,
    on_ready: Callable[[S], None],
) -> None:
    stop = _Stop(asyncio.current_task())
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    try:
        async with opening() as service:
            app = build_app(service)
            server = _Server(_config(app), lambda: on_ready(service))
            stop.serving(server, app.state.live)
            await server.serve(sockets=[bound])
    except asyncio.CancelledError:
        if not stop.asked:
            raise
    finally:
        bound.close()


class _Stop:
    """What a signal does, depending on how far we are."""

    def __init__(self, starting: asyncio.Task[None] | None) -> None:
        self.asked = False
        self._starting = starting
        self._server: _Server | None = None
        self._live: set[Ticket] = set()

    def serving(self, server: _Server, live: set[Ticket]) -> None:
        """From now on `server` is to be stopped, and not the start."""
        self._server = server
        self._live = live

    def __call__(self) -> None:
        if self._server is None:
            if self._starting is not None:
                self._starting.cancel()
        elif self.asked:
            self._cut_short()
            asyncio.get_running_loop().call_later(0.5, setattr, self._server, "force_exit", True)
        else:
            self._server.should_exit = True
            asyncio.get_running_loop().call_later(GRACE, self._cut_short)
        self.asked = True

    def _cut_short(self) -> None:
        """End all answers; their clients are told."""
        for ticket in list(self._live):
            ticket.cancel()


def _config(app: Starlette) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        lifespan="off",
        ws="none",
        access_log=False,
        log_level="warning",
        server_header=False,
        timeout_keep_alive=60,
        timeout_graceful_shutdown=GRACE + 2,
    )
