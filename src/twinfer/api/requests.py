"""The bodies of requests, as types: every field that is known, and what may stand in it.

A field that is not listed is refused. `NEUTRAL` lists the fields that are known but not honoured,
with the values (besides null) that change nothing; anything else in them is refused by name, since
an answer that silently ignores a setting is a wrong answer.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

NEUTRAL: dict[str, tuple[Any, ...]] = {
    "audio": (),
    "frequency_penalty": (0,),
    "function_call": ("none", "auto"),
    "functions": ([],),
    "include_stop_str_in_output": (False,),
    "logit_bias": ({},),
    "logprobs": (False,),
    "min_tokens": (0,),
    "modalities": (["text"],),
    "presence_penalty": (0,),
    "reasoning_effort": ("none",),
    "repetition_penalty": (1,),
    "response_format": ({"type": "text"},),
    "skip_special_tokens": (True,),
    "suffix": ("",),
    "tool_choice": ("none", "auto"),
    "tools": ([],),
    "top_logprobs": (0,),
    "web_search_options": (),
}


class StreamOptions(msgspec.Struct, forbid_unknown_fields=True):
    include_usage: bool | None = None
    include_obfuscation: bool | None = None


class Settings(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What completions and chat have in common. `timeout` is in seconds, from the request's arrival."""

    model: str | None = None
    max_tokens: int | None = None
    n: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    seed: int | None = None
    stop: str | list[str] | None = None
    stop_token_ids: list[int] | None = None
    ignore_eos: bool | None = None
    cache_salt: str | None = None
    priority: int | None = None
    timeout: float | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None

    # Not honoured: only their neutral values are let through.
    frequency_penalty: Any = None
    include_stop_str_in_output: Any = None
    logit_bias: Any = None
    logprobs: Any = None
    min_tokens: Any = None
    presence_penalty: Any = None
    repetition_penalty: Any = None
    response_format: Any = None
    skip_special_tokens: Any = None

    # Without any bearing on the answer.
    metadata: Any = None
    prompt_cache_key: Any = None
    prompt_cache_retention: Any = None
    safety_identifier: Any = None
    service_tier: Any = None
    store: Any = None
    user: Any = None


class CompletionRequest(Settings, kw_only=True, forbid_unknown_fields=True):
    """`prompt` is a text, token ids, or a list of either."""

    prompt: str | list[str | int | list[int]]
    best_of: int | None = None
    echo: bool | None = None
    suffix: Any = None


class Part(msgspec.Struct, forbid_unknown_fields=True):
    """A piece of a message's content. Only texts are understood."""

    type: str
    text: str | None = None
    image_url: Any = None
    input_audio: Any = None
    file: Any = None
    refusal: Any = None


class Message(msgspec.Struct, forbid_unknown_fields=True):
    """The fields after `name` are those that a client sends back from an earlier answer, empty."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[Part] | None = None
    name: str | None = None
    refusal: Any = None
    annotations: Any = None
    audio: Any = None
    function_call: Any = None
    tool_calls: Any = None
    tool_call_id: Any = None


class ChatRequest(Settings, kw_only=True, forbid_unknown_fields=True):
    messages: list[Message]
    max_completion_tokens: int | None = None
    audio: Any = None
    function_call: Any = None
    functions: Any = None
    modalities: Any = None
    parallel_tool_calls: bool | None = None
    prediction: Any = None
    reasoning_effort: Any = None
    tool_choice: Any = None
    tools: Any = None
    top_logprobs: Any = None
    verbosity: Any = None
    web_search_options: Any = None


class TokenizeRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Either a text or the messages of a chat."""

    model: str | None = None
    prompt: str | None = None
    messages: list[Message] | None = None
    add_special_tokens: bool | None = None
    add_generation_prompt: bool = True


class DetokenizeRequest(msgspec.Struct, forbid_unknown_fields=True):
    tokens: list[int]
    model: str | None = None
