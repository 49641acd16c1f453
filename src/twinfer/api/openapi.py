"""GET /openapi.json: the server's description of itself, made from the types that it decodes into."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from twinfer import __version__
from twinfer.api.access import Access
from twinfer.api.limits import Limits
from twinfer.api.schemas import Schema, components, ref
from twinfer.api.service import Service
from twinfer.api.settings import model_names

OBJECT: Schema = {"type": "object"}
REFUSALS = {
    400: "The request is wrong; `param` names the field.",
    401: "A key is missing or not known.",
    403: "A web page that may not call the server, or a route that is switched off.",
    404: "No such model, engine or route.",
    408: "The request came too slowly.",
    409: "The last engine cannot be drained.",
    413: "The body is too large.",
    421: "The server is not known by the name in `Host`.",
    429: "Too much to do; `Retry-After` says when to come back.",
    431: "The head is too large.",
    500: "An engine failed.",
    503: "The server is starting or stopping.",
}


async def openapi(request: Request) -> Response:
    """GET /openapi.json."""
    state = request.app.state
    return Response(
        msgspec.json.encode(document(state.service, state.limits, state.access)),
        media_type="application/json",
    )


def document(service: Service, limits: Limits, access: Access) -> dict[str, Any]:
    """An OpenAPI 3.1 document, true for this very server."""
    key: list[Any] = [{"key": []}] if access.keys else []
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Twinfer",
            "version": __version__,
            "description": "Serves a large language model, with prefill and decode disaggregated.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": {
            **_generating(key),
            **_about(key, model_names(service)),
            **_admin(engine["id"] for engine in service.router.engines()),
        },
        "components": {
            "schemas": components(service, limits),
            "securitySchemes": {
                "key": {"type": "http", "scheme": "bearer"},
                "admin": {"type": "apiKey", "in": "header", "name": "X-Admin-Token"},
            },
        },
    }


def _generating(security: list[Any]) -> dict[str, Any]:
    return {
        "/v1/chat/completions": _post(
            "Answer the last message of a chat.",
            "ChatRequest",
            _streamed("ChatCompletion", "ChatCompletionChunk"),
            security,
        ),
        "/v1/completions": _post(
            "Continue one or more prompts.",
            "CompletionRequest",
            _streamed("Completion", "Completion"),
            security,
        ),
        "/tokenize": _post("Token ids of a text or a chat.", "TokenizeRequest", _json(OBJECT), security),
        "/detokenize": _post("The text of token ids.", "DetokenizeRequest", _json(OBJECT), security),
    }


def _about(security: list[Any], models: Iterable[str]) -> dict[str, Any]:
    text = {"text/plain": {"schema": {"type": "string"}}}
    one = _get("One model.", _json(OBJECT), security)
    one["get"]["parameters"] = [_in_path("model", models)]
    ready = _get("Whether requests are taken, and what is wrong with engines.", _json(OBJECT), [])
    ready["get"]["responses"]["503"] = _json(OBJECT) | {"description": REFUSALS[503]}
    return {
        "/v1/models": _get("The models there are.", _json(OBJECT), security),
        "/v1/models/{model}": one,
        "/health": _get("The process is alive.", _json(OBJECT), []),
        "/ready": ready,
        "/metrics": _get("Metrics in Prometheus's format.", {"content": text}, security),
        "/version": _get("The version.", _json(OBJECT), security),
        "/openapi.json": _get("This document.", _json(OBJECT), security),
        "/admin/engines": _get("The engines; for this machine, or with the admin token.", _json(OBJECT), []),
    }


def _admin(engines: Iterable[str]) -> dict[str, Any]:
    routes = {
        "drain": _post("Move an engine's requests elsewhere.", None, _json(OBJECT), [{"admin": []}]),
        "resume": _post("Take a drained engine back.", None, _json(OBJECT), [{"admin": []}]),
        "role": _post("Change an engine's role.", "RoleRequest", _json(OBJECT), [{"admin": []}]),
    }
    which = _in_path("engine", engines)
    for route in routes.values():
        route["post"]["parameters"] = [which]
    return {f"/admin/engines/{{engine}}/{name}": route for name, route in routes.items()}


def _get(summary: str, answer: Schema, security: list[Any]) -> dict[str, Any]:
    return {"get": _operation(summary, answer, security)}


def _post(summary: str, body: str | None, answer: Schema, security: list[Any]) -> dict[str, Any]:
    operation = _operation(summary, answer, security)
    if body is not None:
        operation["requestBody"] = {"required": True, **_json(ref(body))}
    return {"post": operation}


def _operation(summary: str, answer: Schema, security: list[Any]) -> dict[str, Any]:
    responses = {
        str(status): {"description": text, **_json(ref("Error"))} for status, text in REFUSALS.items()
    }
    responses["200"] = {"description": "The answer.", **answer}
    return {"summary": summary, "responses": responses, "security": security}


def _json(schema: Schema) -> Schema:
    return {"content": {"application/json": {"schema": schema}}}


def _streamed(whole: str, chunk: str) -> Schema:
    events = {"description": f"The `data` of each event is a {chunk}, and of the last one [DONE]."}
    return {
        "content": {"application/json": {"schema": ref(whole)}, "text/event-stream": {"schema": events}},
    }


def _in_path(name: str, known: Iterable[str]) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string", "enum": sorted(known)}}
