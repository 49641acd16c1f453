"""The server's description of itself; `make fuzz-http` holds every request and answer against it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from twinfer.api.app import ROUTES
from twinfer.api.requests import ChatRequest, CompletionRequest, DetokenizeRequest, Message, TokenizeRequest
from twinfer.api.shapes import Envelope, Usage


@pytest.fixture
def document(http: httpx.Client) -> dict[str, Any]:
    return http.get("/openapi.json").json()


def nodes(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            yield from nodes(each)


def test_every_route_is_described(document: dict[str, Any]) -> None:
    routes = {
        (route.path.replace(":path", ""), method.lower())
        for route in ROUTES
        for method in (route.methods or ()) - {"HEAD"}
    }
    described = {(path, method) for path, item in document["paths"].items() for method in item}
    assert described == routes


def test_every_reference_leads_somewhere(document: dict[str, Any]) -> None:
    references = {node["$ref"] for node in nodes(document) if "$ref" in node}
    assert len(references) > 10
    known = {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}
    assert references <= known


@pytest.mark.parametrize(
    "kind", [ChatRequest, CompletionRequest, DetokenizeRequest, TokenizeRequest, Message, Usage]
)
def test_every_field_is_described(document: dict[str, Any], kind: Any) -> None:
    schema = document["components"]["schemas"][kind.__name__]
    assert set(schema["properties"]) == set(kind.__struct_fields__)
    assert schema.get("additionalProperties", kind is Usage) == (kind is Usage)


def test_it_tells_what_this_server_takes(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    fields = schemas["ChatRequest"]["properties"]
    assert fields["model"]["anyOf"][0]["enum"] == ["/models/fake.gguf", "fake"]
    assert fields["temperature"]["anyOf"][0] == {"type": "number", "minimum": 0, "maximum": 2}
    assert fields["stop_token_ids"]["anyOf"][0]["items"]["maximum"] == 299
    assert fields["tools"] == {"enum": [None, []], "default": None}
    assert set(schemas["ChatCompletion"]["properties"]) == set(Envelope.__struct_fields__)
    assert document["paths"]["/admin/engines/{engine}/drain"]["post"]["security"] == [{"admin": []}]
    assert document["paths"]["/tokenize"]["post"]["security"] == []
