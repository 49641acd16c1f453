"""What a client asks of the router: token ids in, how to sample, when to end."""

from __future__ import annotations

import uuid

import msgspec

from twinfer.errors import RequestError
from twinfer.messages import Sampling
from twinfer.sampling import SamplingParams

MOST_PRIORITY = 100


class Generation(msgspec.Struct, frozen=True):
    """One answer to one prompt.

    `prompt` is token ids; at most `max_tokens` are generated, and none after one of `stop_tokens`,
    which is part of the answer. Prefixes are shared with requests of the same `cache_salt` only.
    Lower `priority` numbers come first. Answers of one call have the same `family`: what their prompts
    have in common is computed once, also without a prefix cache.
    """

    prompt: list[int]
    sampling: Sampling
    max_tokens: int
    stop_tokens: tuple[int, ...] = ()
    cache_salt: str = ""
    priority: int = 0
    timeout: float | None = None
    family: str = ""


def check_priority(priority: int) -> None:
    """Raises RequestError for a priority out of range."""
    if not -MOST_PRIORITY <= priority <= MOST_PRIORITY:
        raise RequestError(
            f"priority must be from {-MOST_PRIORITY} to {MOST_PRIORITY}, not {priority}", param="priority"
        )


def new_family(answers: int) -> str:
    """A family for so many answers of one call; none where there is nobody to share with."""
    return uuid.uuid4().hex if answers > 1 else ""


def check_prompt(prompt: list[int], max_model_len: int, param: str) -> None:
    """Refuse what can never be served.

    Raises:
        RequestError: the prompt is empty or leaves no room for an answer.
    """
    if not prompt:
        raise RequestError("the prompt is empty; it must have at least one token", param=param)
    if len(prompt) >= max_model_len:
        raise RequestError(
            f"the prompt has {len(prompt)} tokens; with room for an answer at most {max_model_len - 1} fit"
            f" into the context of {max_model_len} tokens",
            param=param,
            code="context_length_exceeded",
        )


def generations(
    prompt: list[int],
    params: SamplingParams,
    *,
    eos: frozenset[int],
    default_seed: int | None,
    max_model_len: int,
    param: str = "prompt",
    cache_salt: str = "",
    priority: int = 0,
    timeout: float | None = None,
    family: str = "",
) -> list[Generation]:
    """The `params.n` generations of one prompt; their answers end with the context at the latest.

    Raises:
        RequestError: the prompt is empty or leaves no room for an answer; `param` is the field to blame.
    """
    check_prompt(prompt, max_model_len, param)
    check_priority(priority)
    room = max_model_len - len(prompt)
    max_tokens = room if params.max_tokens is None else min(params.max_tokens, room)
    stop_tokens = params.stop_tokens(eos)
    return [
        Generation(prompt, sampling, max_tokens, stop_tokens, cache_salt, priority, timeout, family)
        for sampling in params.samplings(default_seed)
    ]
