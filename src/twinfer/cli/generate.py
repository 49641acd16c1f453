"""`twinfer generate`: one answer on stdout, nothing else there."""

from __future__ import annotations

import asyncio
import sys
from contextlib import aclosing

from twinfer import serving
from twinfer.api import prompts
from twinfer.api.requests import Message
from twinfer.cli import local
from twinfer.cli.notices import notice
from twinfer.config import Config
from twinfer.errors import RequestError
from twinfer.sampling import SamplingParams


def generate(config: Config, prompt: str, *, chat: bool, params: SamplingParams) -> None:
    """Write the continuation of `prompt`, or with `chat` the answer to it, as it comes.

    Raises:
        TwinferError: the prompt is empty or too long, or the model or an engine does not start.
    """
    text = sys.stdin.read() if prompt == "-" else prompt
    if not text:
        raise RequestError("the prompt is empty")
    asyncio.run(_generate(config, text, chat, params))


async def _generate(config: Config, text: str, chat: bool, params: SamplingParams) -> None:
    async with serving.open(config, notice) as service:
        if chat:
            text = await prompts.render(service, [Message("user", text)])
        running = local.start(service, await prompts.encode(service.tokenizer, text), params)
        async with aclosing(local.texts(service, running)) as coming:
            async for piece in coming:
                sys.stdout.write(piece)
                sys.stdout.flush()
        sys.stdout.write("\n")
