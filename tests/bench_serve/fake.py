"""A small HTTP server on a real port that answers with exactly the bytes it is told to, cut as it is told."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tests.processes import PATIENCE

Step = bytes | float | None
"""Bytes to send as they are, a pause in seconds, or None to hang up at once."""

Script = Callable[[str, dict[str, Any]], Sequence[Step]]
"""What to answer to a path and a JSON body."""

EVENTS = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"


def chunk(data: bytes) -> bytes:
    """A chunk of a chunked body."""
    return b"%x\r\n%s\r\n" % (len(data), data)


def event(value: Any) -> bytes:
    """A server-sent event."""
    data = value if isinstance(value, str) else json.dumps(value)
    return f"data: {data}\n\n".encode()


def token(text: str = " x", finish: str | None = None) -> bytes:
    return event({"choices": [{"index": 0, "text": text, "finish_reason": finish}]})


def usage(completion: int, prompt: int = 3, cached: int = 0) -> bytes:
    details = {"cached_tokens": cached}
    counts = {"prompt_tokens": prompt, "completion_tokens": completion, "prompt_tokens_details": details}
    return event({"choices": [], "usage": counts})


def answer(count: int, pause: float = 0.0, *, cached: int = 0) -> list[Step]:
    """A good answer of so many tokens."""
    steps: list[Step] = [EVENTS]
    for number in range(count):
        steps += [chunk(token(f" {number}")), pause]
    return [*steps, chunk(token("", "length") + usage(count, cached=cached) + event("[DONE]")), END]


def error(status: int, message: str) -> list[Step]:
    return whole({"error": {"message": message}}, status)


def whole(value: Any, status: int = 200) -> list[Step]:
    """A response that is not a stream."""
    body = json.dumps(value).encode()
    return [b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n%s" % (status, len(body), body)]


def models(max_model_len: int | None = None) -> list[Step]:
    return whole({"object": "list", "data": [{"id": "fake", "max_model_len": max_model_len}]})


def obliging(path: str, body: dict[str, Any]) -> Sequence[Step]:
    """A server that takes everything and answers at once, at the length asked for."""
    return models(512) if path == "/v1/models" else answer(body["max_tokens"])


class Fake:
    """A running server; `asked` has the path and body of every request, in order."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.hung_up = 0
        self.port = 0
        self.clients: set[asyncio.Task[Any]] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def prompts(self) -> list[list[int]]:
        return [body["prompt"] for _, body in self.asked if "prompt" in body and body["prompt"] != "x"]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.clients.add(task)
        try:
            await self._answer(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            self.hung_up += 1
        except asyncio.CancelledError:
            pass  # The test is over.
        finally:
            self.clients.discard(task)
            writer.transport.abort()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        length = [line.split(":")[1] for line in head.split("\r\n") if line.startswith("Content-Length")]
        body = await reader.readexactly(int(length[0])) if length else b"{}"
        path = head.split()[1]
        self.asked.append((path, json.loads(body)))
        for step in self.script(path, self.asked[-1][1]):
            if step is None:
                return
            if isinstance(step, bytes):
                writer.write(step)
                await writer.drain()
            elif step:
                await asyncio.sleep(step)
        writer.close()
        await writer.wait_closed()


@contextmanager
def serving(script: Script = obliging) -> Iterator[Fake]:
    """The server in a thread of its own."""
    fake = Fake(script)
    ready, stop = threading.Event(), asyncio.Event()
    loop = asyncio.new_event_loop()

    async def main() -> None:
        server = await asyncio.start_server(fake.serve, "127.0.0.1", 0)
        fake.port = server.sockets[0].getsockname()[1]
        ready.set()
        await stop.wait()
        await asyncio.sleep(0.01)  # For those accepted last to have their tasks.
        server.close()
        for task in list(fake.clients):
            task.cancel()
        await asyncio.gather(*fake.clients, return_exceptions=True)
        await asyncio.sleep(0.01)  # For their transports to be closed.

    thread = threading.Thread(target=loop.run_until_complete, args=(main(),))
    thread.start()
    assert ready.wait(PATIENCE)
    try:
        yield fake
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(PATIENCE)
        loop.close()
