"""Answering one request: submit, follow, and send the answers whole or as a stream of events.

A stream's headers go out with its first event, so that whatever fails before is a plain HTTP error.
A client that hangs up cancels its answers at once, and so does every other way out of here.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager

import msgspec
from starlette.datastructures import State
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from twinfer.api import failures
from twinfer.api.answers import Answer, Piece, pieces
from twinfer.api.clients import Clients
from twinfer.api.live import Live
from twinfer.api.overload import check_room
from twinfer.api.requests import Settings
from twinfer.api.service import Router, Service
from twinfer.api.shapes import Envelope, PromptTokens, Shape, Usage
from twinfer.router.generation import Generation
from twinfer.sampling import SamplingParams

EVENT_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
]
DONE = b"data: [DONE]\n\n"
ENCODER = msgspec.json.Encoder()


class Reply(Response):
    """A response that generates while it is being sent.

    `generations` are the answers in the order of their indices; `prompt_tokens` counts every prompt once.
    """

    def __init__(
        self,
        service: Service,
        params: SamplingParams,
        generations: Sequence[Generation],
        shape: Shape,
        asked: Settings,
        *,
        prompt_tokens: int,
    ) -> None:
        super().__init__()
        self.service = service
        self.params = params
        self.generations = generations
        self.shape = shape
        self.stream = bool(asked.stream)
        self.stream_usage = bool(asked.stream_options and asked.stream_options.include_usage)
        self.prompt_tokens = prompt_tokens

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        state: State = scope["app"].state
        clients: Clients = state.clients
        with clients.one_more(scope["state"]["client"]):
            async with (
                submitted(state, self.params, self.generations, receive) as answers,
                aclosing(pieces(self.service.tokenizer, answers)) as coming,
            ):
                if self.stream:
                    # In a task of its own, so that a token wakes none of the layers around this one; under a
                    # server that has no shorter way, it takes the long one.
                    straight: Send = scope["state"].get("send", send)
                    await asyncio.create_task(self._send_stream(coming, answers, send, straight))
                else:
                    body = await self._whole(coming, answers)
                    await Response(body, media_type="application/json")(scope, receive, send)

    def _envelope(self, kind: str) -> Envelope:
        identity = f"{self.shape.prefix}-{uuid.uuid4().hex}"
        return Envelope(identity, kind, int(time.time()), self.service.model_id, [])

    def _usage(self, completion_tokens: int, answers: Sequence[Answer]) -> Usage:
        """Every prompt counts once, as its first answer found it."""
        cached = sum(answer.ticket.cached_tokens for answer in answers[:: self.params.n])
        total = self.prompt_tokens + completion_tokens
        return Usage(self.prompt_tokens, completion_tokens, total, PromptTokens(cached))

    async def _whole(self, coming: AsyncIterator[Piece], answers: Sequence[Answer]) -> bytes:
        texts: list[list[str]] = [[] for _ in self.generations]
        finishes = [""] * len(texts)
        tokens = 0
        async for piece in coming:
            texts[piece.index].append(piece.text)
            tokens += piece.tokens
            finishes[piece.index] = piece.finish or ""
        envelope = self._envelope(self.shape.whole_object)
        envelope.choices = [
            self.shape.whole(index, "".join(text), finishes[index]) for index, text in enumerate(texts)
        ]
        envelope.usage = self._usage(tokens, answers)
        return ENCODER.encode(envelope)

    async def _send_stream(
        self, coming: AsyncIterator[Piece], answers: Sequence[Answer], send: Send, straight: Send
    ) -> None:
        """The head goes by `send` through all layers; the body, which concerns none, goes `straight`."""
        envelope = self._envelope(self.shape.chunk_object)
        if self.stream_usage:
            envelope.usage = None
        events = Events(self.shape, envelope)
        started = False
        try:
            async for piece in coming:
                part = events.of(piece)
                if not part:
                    continue
                if not started:
                    await send({"type": "http.response.start", "status": 200, "headers": EVENT_HEADERS})
                    started = True
                await straight({"type": "http.response.body", "body": part, "more_body": True})
            last = DONE
            if self.stream_usage:
                envelope.usage = self._usage(events.tokens, answers)
                last = _event(ENCODER.encode(envelope)) + DONE
        except Exception as error:
            if not started:
                raise
            failures.log_bug(error)
            last = _event(failures.encode(failures.describe(error)[1]))
        await straight({"type": "http.response.body", "body": last})


class Events:
    """What a stream shows of its answers, within `envelope`; `tokens` counts those of the answers so far."""

    def __init__(self, shape: Shape, envelope: Envelope) -> None:
        self.tokens = 0
        self._shape = shape
        # What encloses a choice is encoded once. The list of choices is the last one in it.
        head, _, tail = _event(ENCODER.encode(envelope)).rpartition(b"[]")
        self._head, self._tail = head + b"[", b"]" + tail
        self._opened: set[int] = set()

    def of(self, piece: Piece) -> bytes:
        """At least one event for a piece that has something to show, else nothing."""
        self.tokens += piece.tokens
        choices = [self._shape.chunk(piece.index, piece.text)] if piece.text else []
        if piece.index not in self._opened:
            self._opened.add(piece.index)
            choices = [choice for choice in (self._shape.opening(piece.index), *choices) if choice]
        if piece.finish:
            choices.append(self._shape.closing(piece.index, piece.finish))
        return b"".join([self._head + ENCODER.encode(choice) + self._tail for choice in choices])


@asynccontextmanager
async def submitted(
    state: State, params: SamplingParams, generations: Sequence[Generation], receive: Receive
) -> AsyncGenerator[list[Answer]]:
    """The answers to `generations`, all cancelled when the client hangs up and at the end.

    Their tickets are in `state.live` meanwhile.

    Raises:
        RequestError, OverloadedError, UnavailableError: one of them is refused, and none is begun.
    """
    router: Router = state.service.router
    live: Live = state.live
    check_room(state, len(generations))
    answers: list[Answer] = []
    watch: asyncio.Task[None] | None = None
    try:
        for index, generation in enumerate(generations):
            ticket = router.submit(generation)
            live.add(ticket)
            answers.append(Answer(index, ticket, params.stops, frozenset(generation.stop_tokens)))
        watch = asyncio.create_task(_cancel_on_hangup(receive, answers))
        yield answers
    finally:
        if watch is not None:
            watch.cancel()
        _cancel(answers)
        live.remove(answer.ticket for answer in answers)


async def _cancel_on_hangup(receive: Receive, answers: Sequence[Answer]) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    _cancel(answers)


def _cancel(answers: Sequence[Answer]) -> None:
    for answer in answers:
        answer.ticket.cancel()


def _event(data: bytes) -> bytes:
    return b"data: " + data + b"\n\n"
