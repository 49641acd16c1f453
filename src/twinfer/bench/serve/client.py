"""The client: asks a server for answers and notes when their bytes arrive."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable

import msgspec

from twinfer.bench.serve import prompts, wire
from twinfer.bench.serve.address import Address
from twinfer.bench.serve.answer import REFUSED, STOPPED, Answer
from twinfer.bench.serve.events import Reader, error_message
from twinfer.bench.serve.exchange import Exchange, Receive
from twinfer.bench.serve.failure import ServerError
from twinfer.bench.serve.wire import Dialect
from twinfer.bench.serve.workload import Job

TOO_MANY_REQUESTS = 429
NO_CONNECTION = "no connection"


class Place(msgspec.Struct, frozen=True):
    """Where a server was reached: its address, an IP address of its host, and how to begin TLS."""

    address: Address
    ip: str
    tls: ssl.SSLContext | None = None


class Asking(msgspec.Struct, frozen=True):
    """All that turns jobs into requests. The contents of prompts depend on `seed` and `salt`."""

    place: Place
    dialect: Dialect
    seed: int
    salt: int = 0
    length_scale: float = 1.0
    timeout: float = 600.0
    api_key: str | None = None


async def reach(address: Address) -> Place:
    """Connect once, and remember where that went, so that no name is looked up while measuring.

    Raises:
        ServerError: nothing answers there.
    """
    context = ssl.create_default_context() if address.tls else None
    name = address.host if context is not None else None
    try:
        made = asyncio.open_connection(address.host, address.port, ssl=context, server_hostname=name)
        _, writer = await asyncio.wait_for(made, 10)
        ip = writer.get_extra_info("peername")[0]
        writer.close()
    except (OSError, asyncio.TimeoutError) as error:
        reason = getattr(error, "strerror", None) or str(error) or "no answer"
        raise ServerError(f"no server at {address.url}: {reason}") from None
    return Place(address, ip, context)


def encode(asking: Asking, job: Job) -> bytes:
    """The HTTP request of a job."""
    drawn = prompts.numbers(asking.seed, asking.salt, job.index, job.input, job.blocks, asking.length_scale)
    body = wire.body(asking.dialect, drawn, job.output)
    return wire.http(asking.place.address, "POST", wire.path(asking.dialect), body, asking.api_key)


async def ask(asking: Asking, job: Job, request: bytes, due: float, note: Callable[[Answer], None]) -> Answer:
    """Send a request and follow its answer to the end. Failures are in the answer, none is raised.

    `note` gets the answer as it begins, to be watched.
    """
    answer = Answer(job, due, time.perf_counter())
    note(answer)
    reader = Reader(answer)
    refusal: list[bytes] = []

    def receive(status: int, body: bytes, now: float) -> None:
        if status == 200:
            reader.feed(body, now)
        else:
            refusal.append(body)

    status, failure = 0, STOPPED
    try:
        status, failure = await exchange(asking.place, request, receive, asking.timeout)
    finally:
        answer.ended = time.perf_counter()
        answer.tokens = answer.tokens or len(answer.stamps)
        answer.failure = verdict(status, failure, reader.failure, reader.finished, answer.tokens)
        if refusal:
            answer.message = error_message(b"".join(refusal))
    return answer


async def exchange(place: Place, request: bytes, receive: Receive, timeout: float) -> tuple[int, str]:
    """Status and failure of a request, as `Exchange` tells them; the failure of no connection is its own."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[str] = loop.create_future()
    sent = Exchange(request, receive, ended)
    timer = loop.call_later(timeout, sent.end, "timeout")
    name = place.address.host if place.tls is not None else None
    try:
        await loop.create_connection(
            lambda: sent, place.ip, place.address.port, ssl=place.tls, server_hostname=name
        )
        failure = await ended
        return sent.status, failure
    except OSError:
        return 0, NO_CONNECTION
    finally:
        timer.cancel()
        sent.end(STOPPED)


def verdict(status: int, transport: str, stream: str, finished: bool, tokens: int) -> str:
    """The kind of failure, or empty: from the status, what ended the exchange, and what the stream said."""
    if status == TOO_MANY_REQUESTS:
        return REFUSED
    if status not in (0, 200):
        return f"HTTP {status}"
    if stream:
        return stream
    if not finished:
        return transport or "disconnected"
    return "" if tokens else "empty answer"


async def call(
    place: Place, method: str, path: str, body: bytes = b"", api_key: str | None = None
) -> tuple[int, bytes]:
    """Status and body of a short request; status 0 when there was none."""
    parts: list[bytes] = []
    request = wire.http(place.address, method, path, body, api_key)
    status, failure = await exchange(place, request, lambda status, part, now: parts.append(part), 30)
    return (0 if failure else status), b"".join(parts)
