"""Generating in this process, with engines of its own: what `generate` and `chat` share."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import msgspec

from twinfer.api.answers import Answer, pieces
from twinfer.api.service import Service, Ticket
from twinfer.router.generation import generations
from twinfer.sampling import SamplingParams


class Running(msgspec.Struct):
    """An answer being written; `tokens` counts what has come of it."""

    ticket: Ticket
    stops: tuple[str, ...]
    stop_tokens: tuple[int, ...]
    tokens: int = 0
    finish: str | None = None


def start(service: Service, prompt: list[int], params: SamplingParams) -> Running:
    """Submit one prompt.

    Raises:
        RequestError: the prompt is too long.
    """
    (generation,) = generations(
        prompt,
        params,
        eos=service.tokenizer.eos,
        default_seed=service.config.seed,
        max_model_len=service.router.max_model_len,
    )
    return Running(service.router.submit(generation), params.stops, generation.stop_tokens)


async def texts(service: Service, running: Running) -> AsyncGenerator[str]:
    """The answer's text, as it comes. A cancelled answer just ends.

    Raises:
        EngineError: the answer was lost.
    """
    answer = Answer(0, running.ticket, running.stops, frozenset(running.stop_tokens))
    async for piece in pieces(service.tokenizer, [answer]):
        running.tokens += piece.tokens
        running.finish = piece.finish
        if piece.text:
            yield piece.text
