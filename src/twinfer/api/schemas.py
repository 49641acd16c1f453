"""The JSON schemas of requests and answers: the types' own, narrowed to what is really taken."""

from __future__ import annotations

from typing import Any

import msgspec

from twinfer.api import shapes
from twinfer.api.admin import RoleRequest
from twinfer.api.answers import FINISHES
from twinfer.api.failures import Failure
from twinfer.api.limits import Limits
from twinfer.api.requests import NEUTRAL, ChatRequest, CompletionRequest, DetokenizeRequest, TokenizeRequest
from twinfer.api.service import Service
from twinfer.api.settings import model_names
from twinfer.router.generation import MOST_PRIORITY
from twinfer.sampling import MOST_STOP_CHARACTERS, MOST_STOP_TOKENS, RANGES

Schema = dict[str, Any]

REF = "#/components/schemas/{name}"
REQUESTS = (ChatRequest, CompletionRequest, DetokenizeRequest, RoleRequest, TokenizeRequest)
ANSWERS = (
    *(shapes.Envelope, shapes.ChatChoice, shapes.CompletionChoice, shapes.DeltaChoice),
    *(shapes.Usage, Failure),
)


def components(service: Service, limits: Limits) -> dict[str, Schema]:
    """All schemas, by name, as this server takes and gives them."""
    _, schemas = msgspec.json.schema_components([*REQUESTS, *ANSWERS], ref_template=REF)
    for name in ("ChatRequest", "CompletionRequest"):
        fields: Schema = schemas[name]["properties"]
        for field, values in NEUTRAL.items():
            if field in fields:
                fields[field] = {"enum": [None, *values], "default": None}
        narrowed = _settings(service, limits)
        fields |= {field: _or_null(schema) for field, schema in narrowed.items() if field in fields}
    models = [{"type": "string", "enum": sorted(model_names(service))}]
    for request in REQUESTS:
        if "model" in schemas[request.__name__]["properties"]:
            schemas[request.__name__]["properties"]["model"] = _or_null(*models)
    _narrow_prompts(schemas, service.tokenizer.vocab_size)
    _narrow_messages(schemas)
    _narrow_answers(schemas)
    return schemas


def ref(name: str) -> Schema:
    """A reference to the schema of this name."""
    return {"$ref": REF.format(name=name)}


def _settings(service: Service, limits: Limits) -> dict[str, Schema]:
    fields = {name: _range(name, least, most) for name, (least, most) in RANGES.items()}
    fields["top_p"] = {"type": "number", "exclusiveMinimum": 0, "maximum": 1}
    fields["n"]["maximum"] = limits.max_choices
    if limits.max_answer_tokens is not None:
        fields["max_tokens"]["maximum"] = limits.max_answer_tokens
    fields |= {"max_completion_tokens": fields["max_tokens"], "best_of": fields["n"]}
    stop = {"type": "string", "minLength": 1, "maxLength": MOST_STOP_CHARACTERS}
    stops = {"type": "array", "items": stop, "maxItems": limits.max_stop_strings}
    tokens = _tokens(service.tokenizer.vocab_size)
    return fields | {
        "stop": {"anyOf": [stop, stops]},
        "stop_token_ids": {**tokens, "maxItems": MOST_STOP_TOKENS},
        "priority": {"type": "integer", "minimum": -MOST_PRIORITY, "maximum": MOST_PRIORITY},
        "timeout": {"type": "number", "exclusiveMinimum": 0},
    }


def _narrow_prompts(schemas: dict[str, Schema], vocab_size: int) -> None:
    text = {"type": "string", "minLength": 1}
    tokens = {**_tokens(vocab_size), "minItems": 1}
    many = {"type": "array", "items": {"anyOf": [text, tokens]}, "minItems": 1}
    schemas["CompletionRequest"]["properties"]["prompt"] = {"anyOf": [text, tokens, many]}
    schemas["DetokenizeRequest"]["properties"]["tokens"] = _tokens(vocab_size)
    either = [{"required": [field], "properties": {field: {"not": {"type": "null"}}}} for field in EITHER]
    schemas["TokenizeRequest"]["oneOf"] = either


EITHER = ("prompt", "messages")


def _narrow_messages(schemas: dict[str, Schema]) -> None:
    for name in ("ChatRequest", "TokenizeRequest"):
        messages: Schema = {"type": "array", "items": ref("Message"), "minItems": 1}
        schemas[name]["properties"]["messages"] = messages if name == "ChatRequest" else _or_null(messages)
    fields = schemas["Message"]["properties"]
    for field in ("tool_calls", "function_call", "audio"):
        fields[field] = {"enum": [None, [], {}], "default": None}
    speaks = {"required": ["content"], "properties": {"content": {"not": {"type": "null"}}}}
    schemas["Message"]["anyOf"] = [{"properties": {"role": {"const": "assistant"}}}, speaks]
    part = schemas["Part"]
    part["properties"] |= {"type": {"const": "text"}, "text": {"type": "string"}}
    part["required"] = ["type", "text"]


def _narrow_answers(schemas: dict[str, Schema]) -> None:
    envelope = schemas.pop("Envelope")
    for name, choice in (
        ("ChatCompletion", "ChatChoice"),
        ("ChatCompletionChunk", "DeltaChoice"),
        ("Completion", "CompletionChoice"),
    ):
        choices = {"type": "array", "items": ref(choice)}
        schemas[name] = {
            **envelope,
            "title": name,
            "properties": {**envelope["properties"], "choices": choices},
        }
        schemas[choice]["properties"]["finish_reason"] = {"enum": [None, *FINISHES]}
    schemas["Error"] = {"type": "object", "properties": {"error": ref("Failure")}, "required": ["error"]}


def _range(name: str, least: float, most: float | None) -> Schema:
    kind = "number" if name in ("temperature", "top_p", "min_p") else "integer"
    return {"type": kind, "minimum": least} | ({} if most is None else {"maximum": most})


def _tokens(vocab_size: int) -> Schema:
    return {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": vocab_size - 1}}


def _or_null(*kinds: Schema) -> Schema:
    return {"anyOf": [*kinds, {"type": "null"}], "default": None}
