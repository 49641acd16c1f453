"""POST /tokenize and POST /detokenize, as vLLM has them."""

from __future__ import annotations

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from twinfer.api import body, prompts, settings
from twinfer.api.requests import DetokenizeRequest, TokenizeRequest
from twinfer.api.service import Service
from twinfer.errors import RequestError


async def tokenize(request: Request) -> Response:
    """Token ids of a text, or of a chat as the model reads it."""
    service: Service = request.app.state.service
    asked = await body.read(request, TokenizeRequest)
    settings.check_model(service, asked.model)
    if (asked.prompt is None) == (asked.messages is None):
        raise RequestError("give either prompt or messages", param="prompt")
    text = asked.prompt
    if asked.messages is not None:
        text = await prompts.render(service, asked.messages, asked.add_generation_prompt)
    tokens = await prompts.tokenize(service.tokenizer, text or "", special=True)
    if asked.add_special_tokens is False and tokens[:1] == [service.tokenizer.bos]:
        tokens = tokens[1:]
    limit = service.router.max_model_len
    return _json({"tokens": tokens, "count": len(tokens), "max_model_len": limit})


async def detokenize(request: Request) -> Response:
    """The text of token ids."""
    service: Service = request.app.state.service
    asked = await body.read(request, DetokenizeRequest)
    settings.check_model(service, asked.model)
    settings.check_tokens("tokens", asked.tokens, service.tokenizer.vocab_size)
    return _json({"prompt": service.tokenizer.decode(asked.tokens)})


def _json(content: object) -> Response:
    return Response(msgspec.json.encode(content), media_type="application/json")
