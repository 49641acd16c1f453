"""From a request's settings to what the router is asked for, every value checked."""

from __future__ import annotations

from collections.abc import Sequence

from twinfer.api.limits import LONGEST, Limits
from twinfer.api.requests import NEUTRAL, Settings
from twinfer.api.service import Service
from twinfer.config import DEFAULT_MODEL
from twinfer.errors import NotFoundError, RequestError
from twinfer.router.generation import Generation, check_priority, new_family
from twinfer.router.generation import generations as generations_of_one
from twinfer.sampling import SamplingParams

MOST_ANSWERS = 1024
SAMPLING_FIELDS = (
    *("n", "temperature", "top_p", "top_k", "min_p", "seed"),
    *("stop", "stop_token_ids", "ignore_eos"),
)


def check(service: Service, limits: Limits, body: Settings, max_tokens: int | None) -> SamplingParams:
    """How to generate what `body` asks for; `max_tokens` None is up to the end of the context.

    Raises:
        RequestError: a value is out of range, or asks for what is not supported.
        NotFoundError: another model is asked for.
    """
    check_model(service, body.model)
    _refuse_unsupported(body)
    if body.stream_options is not None and not body.stream:
        raise RequestError("stream_options needs stream to be true", param="stream_options")
    if body.timeout is not None and not body.timeout > 0:
        raise RequestError(f"timeout must be a number of seconds over 0, not {body.timeout}", param="timeout")
    check_tokens("stop_token_ids", body.stop_token_ids or [], service.tokenizer.vocab_size)
    given = {name: value for name in SAMPLING_FIELDS if (value := getattr(body, name)) is not None}
    max_tokens = limits.max_answer_tokens if max_tokens is None else max_tokens
    params = SamplingParams(max_tokens=max_tokens, **given)
    _check_limits(params, limits)
    check_priority(body.priority or 0)
    return params


def generations(
    service: Service,
    limits: Limits,
    body: Settings,
    params: SamplingParams,
    prompts: Sequence[list[int]],
    param: str,
) -> list[Generation]:
    """`params.n` generations of every prompt; `param` is the field that the prompts came in.

    Raises:
        RequestError: a prompt leaves no room for an answer, or there are too many.
    """
    most = min(MOST_ANSWERS, limits.max_queue)
    if len(prompts) * params.n > most:
        raise RequestError(f"at most {most} answers can be asked for at once", param="n")
    timeout = min(body.timeout or LONGEST, limits.request_timeout or LONGEST)
    family = new_family(len(prompts) * params.n)
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
            timeout=timeout,
            family=family,
        )
    ]


def check_model(service: Service, name: str | None) -> None:
    """Raises NotFoundError unless `name` is None, the served name, or the name the user gave."""
    if name is not None and name not in model_names(service):
        raise NotFoundError(
            f"the model '{name}' does not exist; this server has '{service.model_id}'",
            param="model",
            code="model_not_found",
        )


def model_names(service: Service) -> set[str]:
    """The names by which the model may be asked for: the served one, and the one the user gave."""
    return {service.model_id, service.config.model or DEFAULT_MODEL}


def check_tokens(param: str, tokens: Sequence[int], vocab_size: int) -> None:
    """Raises RequestError for a token id that the model does not have."""
    if tokens and (min(tokens) < 0 or max(tokens) >= vocab_size):
        raise RequestError(f"{param} holds a token id outside 0 to {vocab_size - 1}", param=param)


def _check_limits(params: SamplingParams, limits: Limits) -> None:
    """What a server may forbid although it could be done."""
    for param, what, value, most in (
        ("max_tokens", "max_tokens", params.max_tokens, limits.max_answer_tokens),
        ("n", "n", params.n, limits.max_choices),
        ("stop", "the number of stop strings", len(params.stops), limits.max_stop_strings),
    ):
        if value is not None and most is not None and value > most:
            raise RequestError(f"{what} must be at most {most} on this server, not {value}", param=param)


def _refuse_unsupported(body: Settings) -> None:
    for field, neutral in NEUTRAL.items():
        value = getattr(body, field, None)
        if value is not None and not any(_same(value, each) for each in neutral):
            raise RequestError(f"'{field}' is not supported", param=field, code="unsupported_parameter")


def _same(value: object, neutral: object) -> bool:
    """Equal also in type, where Python takes false for 0."""
    return isinstance(value, bool) == isinstance(neutral, bool) and value == neutral
