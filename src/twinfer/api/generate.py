"""POST /v1/completions and POST /v1/chat/completions."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from twinfer.api import body, prompts, settings
from twinfer.api.limits import Limits
from twinfer.api.overload import check_room
from twinfer.api.reply import Reply
from twinfer.api.requests import ChatRequest, CompletionRequest
from twinfer.api.service import Service
from twinfer.api.shapes import ChatShape, CompletionShape
from twinfer.errors import RequestError

DEFAULT_COMPLETION_TOKENS = 16


async def completions(request: Request) -> Response:
    """Continue one or more prompts."""
    service: Service = request.app.state.service
    limits: Limits = request.app.state.limits
    check_room(request.app.state)
    asked = await body.read(request, CompletionRequest)
    max_tokens = DEFAULT_COMPLETION_TOKENS if asked.max_tokens is None else asked.max_tokens
    params = settings.check(service, limits, asked, max_tokens)
    if asked.best_of not in (None, params.n):
        raise RequestError("best_of is not supported, other than equal to n", param="best_of")
    service.router.check_room(asked.priority or 0)
    written = prompts.split(asked.prompt)
    tokens = [await prompts.encode(service.tokenizer, prompt) for prompt in written]
    generations = settings.generations(service, limits, asked, params, tokens, "prompt")
    heads = [_head(service, prompt, bool(asked.echo)) for prompt in written for _ in range(params.n)]
    return Reply(
        service,
        params,
        generations,
        CompletionShape(heads),
        asked,
        prompt_tokens=sum(map(len, tokens)),
    )


async def chat_completions(request: Request) -> Response:
    """Answer the last message of a chat."""
    service: Service = request.app.state.service
    limits: Limits = request.app.state.limits
    check_room(request.app.state)
    asked = await body.read(request, ChatRequest)
    given = [most for most in (asked.max_completion_tokens, asked.max_tokens) if most is not None]
    params = settings.check(service, limits, asked, min(given) if given else None)
    service.router.check_room(asked.priority or 0)
    text = await prompts.render(service, asked.messages)
    tokens = await prompts.tokenize(service.tokenizer, text, special=True)
    generations = settings.generations(service, limits, asked, params, [tokens], "messages")
    return Reply(service, params, generations, ChatShape(), asked, prompt_tokens=len(tokens))


def _head(service: Service, prompt: prompts.Prompt, echo: bool) -> str:
    if not echo:
        return ""
    return prompt if isinstance(prompt, str) else service.tokenizer.decode(prompt)
