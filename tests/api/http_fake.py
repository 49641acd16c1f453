"""A router without engines and a tokeniser of bytes, to test all of HTTP against."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

from prometheus_client import CollectorRegistry, Counter

from tests.processes import PATIENCE
from twinfer.errors import NotFoundError, RequestError
from twinfer.router.generation import Generation

EOS = 256
VOCAB = 300
ANSWER = "Hello, wörld 🤖!"

Step = list[int] | float | Exception
"""Tokens, a pause in seconds, or an error."""


class FakeTokenizer:
    """Token i is byte i; `EOS` ends, and the ids above it have no text."""

    vocab_size = VOCAB
    bos = None
    eos = frozenset({EOS})

    def encode(self, text: str, special: bool = True) -> list[int]:
        return list(text.encode())

    def token_bytes(self, token: int) -> bytes:
        return bytes([token]) if token < 256 else b""

    def decode(self, ids: Iterable[int]) -> str:
        return b"".join(map(self.token_bytes, ids)).decode(errors="replace")


class FakeTemplate:
    def render(self, messages: list[dict[str, Any]], add_generation_prompt: bool = True) -> str:
        if messages[0]["content"] == "refused":
            raise RequestError("the template refuses this chat", param="messages")
        text = "".join(f"<{message['role']}>{message['content']}\n" for message in messages)
        return text + ("<assistant>" if add_generation_prompt else "")


class FakeTicket:
    def __init__(self, generation: Generation, steps: list[Step]) -> None:
        self.generation = generation
        self.steps = steps
        self.finish_reason: str | None = None
        self.cached_tokens = 0
        self.cancelled = asyncio.Event()
        self.given = 0

    async def __aiter__(self) -> AsyncIterator[list[int]]:
        for step in self.steps:
            if isinstance(step, Exception):
                self.finish_reason = "error"
                raise step
            if isinstance(step, float):
                await self._pause(step)
            if self.finish_reason is not None:
                return
            if isinstance(step, list):
                tokens = step[: self.generation.max_tokens - self.given]
                self.given += len(tokens)
                if tokens[-1] in self.generation.stop_tokens:
                    self.finish_reason = "stop"
                elif self.given == self.generation.max_tokens:
                    self.finish_reason = "length"
                yield tokens

    async def _pause(self, seconds: float) -> None:
        timeout = self.generation.timeout or seconds
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self.cancelled.wait(), min(seconds, timeout))
        if timeout < seconds and self.finish_reason is None:
            self.finish_reason = "timeout"

    def cancel(self) -> None:
        if self.finish_reason is None:
            self.finish_reason = "cancelled"
            self.cancelled.set()


def bytewise(text: str) -> list[Step]:
    """A text a byte a step, then the end token, then `x` for ever."""
    return [*([byte] for byte in text.encode()), [EOS], *([[ord("x")]] * 1000)]


class FakeMetrics:
    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        Counter("twinfer_requests", "Requests", registry=self.registry).inc()


class FakeRouter:
    """`script` gives the steps of each generation; `tickets` are all those submitted."""

    max_model_len = 512

    def __init__(self) -> None:
        self.metrics = FakeMetrics()
        self.reset()

    def reset(self) -> None:
        self.ready = True
        self.waiting = 0
        self.retry_after = 1.0
        self.states = {"prefill-0": ["prefill", "ready"], "decode-0": ["decode", "ready"]}
        self.faults: list[str] = []
        self.refusal: Exception | None = None
        self.full: Exception | None = None
        self.script: Callable[[Generation], list[Step]] = lambda generation: bytewise(ANSWER)
        self.tickets: list[FakeTicket] = []

    def check_room(self, priority: int) -> None:
        if self.full is not None and priority >= 0:
            raise self.full

    def submit(self, generation: Generation) -> FakeTicket:
        if self.refusal is not None:
            raise self.refusal
        ticket = FakeTicket(generation, self.script(generation))
        self.tickets.append(ticket)
        return ticket

    def engines(self) -> list[dict[str, Any]]:
        return [
            {"id": name, "role": role, "pid": 7, "cores": [1], "state": state}
            for name, (role, state) in self.states.items()
        ]

    def problems(self) -> list[str]:
        return self.faults

    def drain(self, engine: str, draining: bool) -> None:
        self._find(engine)[1] = "draining" if draining else "ready"

    def set_role(self, engine: str, role: str) -> None:
        self._find(engine)[0] = role

    def _find(self, engine: str) -> list[str]:
        if engine not in self.states:
            raise NotFoundError(f"there is no ready engine '{engine}'", param="engine")
        return self.states[engine]


class FakeConfig:
    model = "/models/fake.gguf"
    seed: int | None = None


class FakeService:
    model_id = "fake"
    config = FakeConfig()

    def __init__(self) -> None:
        self.router = FakeRouter()
        self.tokenizer = FakeTokenizer()
        self.template: FakeTemplate | None = FakeTemplate()


def wait_until(condition: Callable[[], object], seconds: float = PATIENCE) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "did not happen in time"
        time.sleep(0.005)
