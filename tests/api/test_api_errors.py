"""Every way to be refused: the status, the field named, and never a 500 or a broken stream."""

from __future__ import annotations

import json
from typing import Any

import httpx
import openai
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from twinfer.api.limits import Limits
from twinfer.api.requests import (
    ChatRequest,
    CompletionRequest,
    DetokenizeRequest,
    Message,
    Part,
    TokenizeRequest,
)
from twinfer.errors import EngineError, OverloadedError, UnavailableError

from .http_fake import ANSWER, FakeRouter
from .replies import ROUTES, check_reply, error_of

BODY_LIMIT = Limits().max_body_size
MESSAGES = [{"role": "user", "content": "Hi"}]


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"nonsense",
        b'{"prompt": NaN}',
        b'{"prompt": "x", "temperature": Infinity}',
        b'{"prompt": "x", "temperature": 1e999}',
        b'{"prompt": "\\ud800"}',
        b'{"prompt": "\x00"}',
        b'{"prompt": "x", "metadata": ' + b"[" * 100_000,
        b'{"prompt": "x", "metadata": ' + b"9" * 10_000 + b"}",
        b"[" * 100_000,
        b"[]",
        b"null",
        b'"text"',
    ],
    ids=lambda body: repr(body[:30]),
)
def test_malformed_bodies(http: httpx.Client, route: str, body: bytes) -> None:
    assert error_of(http.post(route, content=body), 400)["type"] == "invalid_request_error"


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"max_tokens": "many"}, "max_tokens"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": -1}, "max_tokens"),
        ({"max_tokens": 1.5}, "max_tokens"),
        ({"max_tokens": True}, "max_tokens"),
        ({"temperature": -0.1}, "temperature"),
        ({"temperature": 2.1}, "temperature"),
        ({"temperature": "hot"}, "temperature"),
        ({"top_p": 0}, "top_p"),
        ({"top_p": 1.1}, "top_p"),
        ({"top_k": -2}, "top_k"),
        ({"top_k": 10**40}, "top_k"),
        ({"min_p": -1}, "min_p"),
        ({"min_p": 1.5}, "min_p"),
        ({"seed": 2**64}, "seed"),
        ({"seed": 1.5}, "seed"),
        ({"n": 0}, "n"),
        ({"n": 10**6}, "n"),
        ({"stop": ""}, "stop"),
        ({"stop": ["a", ""]}, "stop"),
        ({"stop": ["a"] * 17}, "stop"),
        ({"stop": [1]}, "stop[0]"),
        ({"stop_token_ids": [300]}, "stop_token_ids"),
        ({"stream": "yes"}, "stream"),
        ({"stream_options": {"include_usage": True}}, "stream_options"),
        ({"stream": True, "stream_options": {"wrong": 1}}, "stream_options.wrong"),
        ({"logprobs": 1}, "logprobs"),
        ({"presence_penalty": 0.5}, "presence_penalty"),
        ({"frequency_penalty": -1}, "frequency_penalty"),
        ({"logit_bias": {"1": 5}}, "logit_bias"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"nonsense": 1}, "nonsense"),
    ],
    ids=str,
)
@pytest.mark.parametrize("route", ROUTES[:2])
def test_settings(
    http: httpx.Client, router: FakeRouter, route: str, fields: dict[str, object], param: str
) -> None:
    prompt = {"prompt": "x"} if route == "/v1/completions" else {"messages": MESSAGES}
    error = error_of(http.post(route, json={**prompt, **fields}), 400)
    assert error["param"] == param
    assert param in error["message"]
    assert not router.tickets


@pytest.mark.parametrize(
    ("route", "body", "param"),
    [
        ("/v1/completions", {}, "prompt"),
        ("/v1/completions", {"prompt": None}, "prompt"),
        ("/v1/completions", {"prompt": ""}, "prompt"),
        ("/v1/completions", {"prompt": []}, "prompt"),
        ("/v1/completions", {"prompt": ["a", ""]}, "prompt"),
        ("/v1/completions", {"prompt": [[1], []]}, "prompt"),
        ("/v1/completions", {"prompt": [1, "a"]}, "prompt"),
        ("/v1/completions", {"prompt": [[1, "a"]]}, "prompt[0][1]"),
        ("/v1/completions", {"prompt": [1, -1]}, "prompt"),
        ("/v1/completions", {"prompt": [300]}, "prompt"),
        ("/v1/completions", {"prompt": [10**30]}, "prompt"),
        ("/v1/completions", {"prompt": {"a": 1}}, "prompt"),
        ("/v1/completions", {"prompt": "a", "suffix": "b"}, "suffix"),
        ("/v1/completions", {"prompt": "a", "best_of": 3}, "best_of"),
        ("/v1/completions", {"prompt": ["a"] * 1000, "n": 2}, "n"),
        ("/v1/chat/completions", {}, "messages"),
        ("/v1/chat/completions", {"messages": []}, "messages"),
        ("/v1/chat/completions", {"messages": "Hi"}, "messages"),
        ("/v1/chat/completions", {"messages": [{"content": "Hi"}]}, "messages[0].role"),
        ("/v1/chat/completions", {"messages": [{"role": "user"}]}, "messages[0].content"),
        ("/v1/chat/completions", {"messages": [{"role": "king", "content": "a"}]}, "messages[0].role"),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": 1}]}, "messages[0].content"),
        (
            "/v1/chat/completions",
            {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]},
            "messages[0].content[0]",
        ),
        (
            "/v1/chat/completions",
            {"messages": [{"role": "assistant", "tool_calls": [{"id": "x"}]}]},
            "messages[0].tool_calls",
        ),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "refused"}]}, "messages"),
        ("/v1/chat/completions", {"messages": MESSAGES, "tools": [{"type": "function"}]}, "tools"),
        ("/v1/chat/completions", {"messages": MESSAGES, "logprobs": True}, "logprobs"),
        ("/tokenize", {}, "prompt"),
        ("/tokenize", {"prompt": "a", "messages": MESSAGES}, "prompt"),
        ("/detokenize", {"tokens": [300]}, "tokens"),
        ("/detokenize", {"tokens": ["a"]}, "tokens[0]"),
    ],
    ids=lambda value: str(value)[:60],
)
def test_prompts(http: httpx.Client, route: str, body: dict[str, object], param: str) -> None:
    assert error_of(http.post(route, json=body), 400)["param"] == param


@pytest.mark.parametrize(
    ("route", "body", "param"),
    [
        ("/v1/completions", {"prompt": "a" * 512}, "prompt"),
        ("/v1/completions", {"prompt": ["fits", [1] * 600]}, "prompt"),
        ("/v1/completions", {"prompt": "long " * 20_000}, "prompt"),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "a" * 600}]}, "messages"),
    ],
    ids=["exactly", "second", "far", "chat"],
)
@pytest.mark.parametrize("stream", [False, True])
def test_prompts_over_the_context(
    http: httpx.Client, router: FakeRouter, route: str, body: dict[str, object], param: str, stream: bool
) -> None:
    error = error_of(http.post(route, json={**body, "stream": stream}), 400)
    assert (error["param"], error["code"]) == (param, "context_length_exceeded")
    assert "512" in error["message"]
    assert not router.tickets


def test_longest_prompt_that_fits(http: httpx.Client, router: FakeRouter) -> None:
    assert http.post("/v1/completions", json={"prompt": "a" * 511}).status_code == 200
    assert router.tickets[0].generation.max_tokens == 1


@pytest.mark.parametrize("route", ROUTES)
def test_unknown_model(http: httpx.Client, route: str) -> None:
    body = {"prompt": "a"} if route in ("/v1/completions", "/tokenize") else {"messages": MESSAGES}
    body = {"tokens": [1]} if route == "/detokenize" else body
    error = error_of(http.post(route, json={**body, "model": "gpt-9"}), 404)
    assert (error["param"], error["code"]) == ("model", "model_not_found")


def test_openai_client_sees_its_own_errors(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError, match="gpt-9"):
        client.chat.completions.create(model="gpt-9", messages=MESSAGES)
    with pytest.raises(openai.BadRequestError, match="temperature") as caught:
        client.chat.completions.create(model="fake", messages=MESSAGES, temperature=3, stream=True)
    assert caught.value.param == "temperature"


def test_wrong_method_and_unknown_route(http: httpx.Client) -> None:
    assert "POST" in error_of(http.get("/v1/completions"), 405)["message"]
    error_of(http.delete("/v1/models"), 405)
    assert "/v2" in error_of(http.get("/v2"), 404)["message"]
    error_of(http.post("/v1/completions/", json={}), 404)
    error_of(http.get("/v1/models/other"), 404)
    error_of(http.get("/%ED%A0%80%00"), 404)


def test_body_too_large(http: httpx.Client) -> None:
    assert error_of(http.post("/tokenize", content=b" " * (BODY_LIMIT + 1)), 413)["code"] == "body_too_large"

    def pieces():  # type: ignore[no-untyped-def]
        for _ in range((BODY_LIMIT >> 20) + 1):
            yield b" " * (1 << 20)

    error_of(http.post("/tokenize", content=pieces()), 413)
    assert http.get("/health").status_code == 200


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("error", "status"),
    [
        (OverloadedError("full"), 429),
        (UnavailableError("stopping"), 503),
        (EngineError("lost"), 500),
        (ValueError("bug"), 500),
    ],
)
def test_failures_before_the_first_token(
    http: httpx.Client, router: FakeRouter, stream: bool, error: Exception, status: int
) -> None:
    body = {"prompt": ["a", "b"], "stream": stream}
    router.refusal = error
    assert "bug" not in error_of(http.post("/v1/completions", json=body), status)["message"]
    router.refusal = None
    router.script = lambda generation: [5.0] if generation.prompt == [97] else [error]
    error_of(http.post("/v1/completions", json=body), status)
    assert router.tickets[0].finish_reason == "cancelled"


@pytest.mark.parametrize(
    ("error", "message"),
    [(EngineError("the engine died"), "the engine died"), (ValueError("bug"), "internal server error")],
)
def test_failure_within_a_stream(
    client: openai.OpenAI, http: httpx.Client, router: FakeRouter, error: Exception, message: str
) -> None:
    router.script = lambda generation: [[*b"Hel"], 0.01, error]
    response = http.post("/v1/completions", json={"prompt": "a", "stream": True})
    *_, chunk, last = response.text.removesuffix("\n\n").split("\n\n")
    assert "Hel" in chunk
    assert json.loads(last.removeprefix("data: "))["error"]["message"] == message
    with pytest.raises(openai.APIError, match=message):
        list(client.completions.create(model="fake", prompt="a", stream=True))


def test_cut_short_by_the_server(http: httpx.Client, router: FakeRouter) -> None:
    router.script = lambda generation: [[*b"Hel"]]
    error_of(http.post("/v1/completions", json={"prompt": "a"}), 503)


def test_not_ready(http: httpx.Client, router: FakeRouter) -> None:
    router.ready = False
    response = http.post("/v1/completions", json={"prompt": "a", "stream": True})
    error_of(response, 503)
    assert response.headers["retry-after"] == "1"
    assert http.get("/ready").status_code == 503
    assert http.get("/health").status_code == 200


SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=5)
    | st.sampled_from(["fake", "user", "text", "auto", 0, 1, 2**63, 2**64, -(2**63) - 1, "\x00", "\ud800"])
)  # fmt: skip
FIELDS = st.sampled_from(
    sorted(
        {
            *(CompletionRequest.__struct_fields__ + ChatRequest.__struct_fields__),
            *(TokenizeRequest.__struct_fields__ + DetokenizeRequest.__struct_fields__),
            *(Message.__struct_fields__ + Part.__struct_fields__),
            "include_usage",
        }
    )
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(FIELDS, inner, max_size=4),
    max_leaves=12,
)
BODIES = VALUES | st.dictionaries(FIELDS, VALUES, max_size=6)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    route=st.sampled_from(ROUTES),
    body=BODIES,
    base=st.sampled_from([{}, {"prompt": "x"}, {"messages": MESSAGES}, {"prompt": ["a", [1]]}]),
)
def test_arbitrary_json_is_never_a_server_error(
    http: httpx.Client, route: str, body: Any, base: dict[str, Any]
) -> None:
    if isinstance(body, dict):
        body = {**base, **body}
    check_reply(http.post(route, content=json.dumps(body).encode()))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(route=st.sampled_from(ROUTES), body=st.binary(max_size=50))
def test_arbitrary_bytes_are_never_a_server_error(http: httpx.Client, route: str, body: bytes) -> None:
    error_of(http.post(route, content=body), 400)


def test_answers_go_on_after_all_that(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(model="fake", messages=MESSAGES)
    assert answer.choices[0].message.content == ANSWER
