"""Following the tickets of one HTTP request, and turning their tokens into text."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

import msgspec

from twinfer.api.service import Ticket, Tokenizer
from twinfer.errors import UnavailableError
from twinfer.model.detokenize import TextStream

FINISHES = ("stop", "length", "timeout")


class Piece(msgspec.Struct, frozen=True):
    """What is new of answer `index`: `tokens` tokens, and the text that can be shown now.

    The last piece of an answer has a `finish`, one of `FINISHES`.
    """

    index: int
    text: str
    tokens: int
    finish: str | None = None


class Answer(msgspec.Struct, frozen=True):
    """Answer `index` of a request, as it is being written."""

    index: int
    ticket: Ticket
    stop: tuple[str, ...]
    stop_tokens: frozenset[int]


def pieces(tokenizer: Tokenizer, answers: Sequence[Answer]) -> AsyncGenerator[Piece]:
    """The pieces of all answers, as they come.

    Raises:
        EngineError: an answer was lost.
        UnavailableError: an answer was cut short by the server.
    """
    return _follow(tokenizer, answers[0]) if len(answers) == 1 else _merge(tokenizer, answers)


async def _merge(tokenizer: Tokenizer, answers: Sequence[Answer]) -> AsyncGenerator[Piece]:
    queue: asyncio.Queue[Piece | BaseException] = asyncio.Queue(len(answers))
    tasks = [asyncio.create_task(_feed(tokenizer, answer, queue)) for answer in answers]
    try:
        running = len(answers)
        while running:
            piece = await queue.get()
            if isinstance(piece, BaseException):
                raise piece
            running -= piece.finish is not None
            yield piece
    finally:
        for task in tasks:
            task.cancel()


async def _feed(tokenizer: Tokenizer, answer: Answer, queue: asyncio.Queue[Piece | BaseException]) -> None:
    try:
        async with aclosing(_follow(tokenizer, answer)) as own:
            async for piece in own:
                await queue.put(piece)
    except Exception as error:
        await queue.put(error)


async def _follow(tokenizer: Tokenizer, answer: Answer) -> AsyncGenerator[Piece]:
    text = TextStream(tokenizer, answer.stop)
    async for tokens in answer.ticket:
        shown = tokens[:-1] if tokens[-1] in answer.stop_tokens else tokens
        piece = text.push(shown)
        if text.stopped:
            answer.ticket.cancel()
            yield Piece(answer.index, piece, len(tokens), "stop")
            return
        yield Piece(answer.index, piece, len(tokens))
    rest = text.finish()
    reason = "stop" if text.stopped else answer.ticket.finish_reason
    if reason not in FINISHES:
        raise UnavailableError("the answer was cut short; the server is stopping")
    yield Piece(answer.index, rest, 0, reason)
