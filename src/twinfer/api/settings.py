"""From a request's settings to what the router is asked for, every value checked."""

from __future__ import annotations

from collections.abc import Sequence

from twinfer.api.requests import NEUTRAL, Settings
from twinfer.api.service import Service
from twinfer.config import DEFAULT_MODEL
from twinfer.errors import NotFoundError, RequestError
from twinfer.router.generation import Generation
from twinfer.router.generation import generations as generations_of_one
from twinfer.sampling import SamplingParams

MOST_ANSWERS = 1024
SAMPLING_FIELDS = (
    *("n", "temperature", "top_p", "top_k", "min_p", "seed"),
    *("stop", "stop_token_ids", "ignore_eos"),
)


def check(service: Service, body: Settings, max_tokens: int | None) -> SamplingParams:
    """How to generate what `body` asks for; `max_tokens` None is up to the end of the context.

    Raises:
        RequestError: a value is out of range, or asks for what is not supported.
        NotFoundError: another model is asked for.
    """
    check_model(service, body.model)
    _refuse_unsupported(body)
    if body.stream_options is not None and not body.stream:
        raise RequestError("stream_options needs stream to be true", param="stream_options")
    check_tokens("stop_token_ids", body.stop_token_ids or [], service.tokenizer.vocab_size)
    given = {name: value for name in SAMPLING_FIELDS if (value := getattr(body, name)) is not None}
    return SamplingParams(max_tokens=max_tokens, **given)


def generations(
    service: Service, body: Settings, params: SamplingParams, prompts: Sequence[list[int]], param: str
) -> list[Generation]:
    """`params.n` generations of every prompt; `param` is the field that the prompts came in.

    Raises:
        RequestError: a prompt leaves no room for an answer, or there are too many.
    """
    if len(prompts) * params.n > MOST_ANSWERS:
        raise RequestError(f"at most {MOST_ANSWERS} answers can be asked for at once", param="n")
    return [
        generation
        for prompt in prompts
        for generation in generations_of_one(
            prompt,
            params,
            eos=service.tokenizer.eos,
            default_seed=service.config.seed,
            max_model_len=service.router.max_model_len,
            param=param,
            cache_salt=body.cache_salt or "",
            priority=body.priority or 0,
        )
    ]


def check_model(service: Service, name: str | None) -> None:
    """Raises NotFoundError unless `name` is None, the served name, or the name the user gave."""
    if name not in (None, service.model_id, service.config.model or DEFAULT_MODEL):
        raise NotFoundError(
            f"the model '{name}' does not exist; this server has '{service.model_id}'",
            param="model",
            code="model_not_found",
        )


def check_tokens(param: str, tokens: Sequence[int], vocab_size: int) -> None:
    """Raises RequestError for a token id that the model does not have."""
    if tokens and (min(tokens) < 0 or max(tokens) >= vocab_size):
        raise RequestError(f"{param} holds a token id outside 0 to {vocab_size - 1}", param=param)


def _refuse_unsupported(body: Settings) -> None:
    for field, neutral in NEUTRAL.items():
        value = getattr(body, field, None)
        if value is not None and value not in neutral:
            raise RequestError(f"'{field}' is not supported", param=field, code="unsupported_parameter")
