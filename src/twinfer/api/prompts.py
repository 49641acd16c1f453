"""From a prompt as the client wrote it to token ids."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from twinfer.api.requests import Message
from twinfer.api.service import Service, Tokenizer
from twinfer.api.settings import check_tokens
from twinfer.errors import RequestError

LONG_TEXT = 1 << 14
"""Characters from which on tokenising is left to a thread, so that running streams go on meanwhile."""

TEMPLATE_THREAD = ThreadPoolExecutor(1, "template")
"""Of its own, so that a template that takes its time keeps nothing else waiting."""

Prompt = str | list[int]


def split(prompt: str | list[str | int | list[int]]) -> list[Prompt]:
    """The prompts of a completion request: one text, one list of ids, or a list of either.

    Raises:
        RequestError: no prompt, an empty one, or texts and ids mixed up in one list.
    """
    if isinstance(prompt, str):
        prompts: list[Prompt] = [prompt]
    elif prompt and all(isinstance(item, int) for item in prompt):
        prompts = [[item for item in prompt if isinstance(item, int)]]
    else:
        prompts = [item for item in prompt if not isinstance(item, int)]
        if len(prompts) != len(prompt):
            raise RequestError("prompt mixes token ids with whole prompts", param="prompt")
    if not prompts or not all(prompts):
        raise RequestError("prompt must not be empty", param="prompt")
    return prompts


async def encode(tokenizer: Tokenizer, prompt: Prompt) -> list[int]:
    """Token ids of one prompt of a completion request.

    Raises:
        RequestError: there are none, or one is not of the vocabulary.
    """
    if isinstance(prompt, str):
        tokens = await tokenize(tokenizer, prompt, special=True)
    else:
        tokens = prompt
        check_tokens("prompt", tokens, tokenizer.vocab_size)
    if not tokens:
        raise RequestError("prompt must not be empty", param="prompt")
    return tokens


async def tokenize(tokenizer: Tokenizer, text: str, special: bool) -> list[int]:
    if len(text) < LONG_TEXT:
        return tokenizer.encode(text, special)
    return await asyncio.to_thread(tokenizer.encode, text, special)


async def render(service: Service, messages: list[Message], add_generation_prompt: bool = True) -> str:
    """The text that the model reads for a chat.

    Raises:
        RequestError: no messages, content that is not text, or a chat that the model's template refuses.
    """
    if service.template is None:
        raise RequestError("this model has no chat template; use /v1/completions", param="messages")
    if not messages:
        raise RequestError("messages must not be empty", param="messages")
    plain = [_plain(message, f"messages[{index}]") for index, message in enumerate(messages)]
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(TEMPLATE_THREAD, service.template.render, plain, add_generation_prompt)


def _plain(message: Message, where: str) -> dict[str, Any]:
    for field in ("tool_calls", "function_call", "audio"):
        if getattr(message, field) not in (None, [], {}):
            raise RequestError(f"'{where}.{field}' is not supported", param=f"{where}.{field}")
    if message.content is None and message.role != "assistant":
        raise RequestError(f"{where}.content is missing", param=f"{where}.content")
    plain = {"role": "system" if message.role == "developer" else message.role}
    plain["content"] = _content(message, f"{where}.content")
    if message.name is not None:
        plain["name"] = message.name
    return plain


def _content(message: Message, where: str) -> str:
    if message.content is None or isinstance(message.content, str):
        return message.content or ""
    texts: list[str] = []
    for index, part in enumerate(message.content):
        if part.type != "text" or part.text is None:
            raise RequestError(
                f"{where}[{index}] is of type '{part.type}'; only text with a 'text' field is supported",
                param=f"{where}[{index}]",
            )
        texts.append(part.text)
    return "\n".join(texts)
