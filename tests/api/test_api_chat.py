"""POST /v1/chat/completions, whole and as a stream."""

from __future__ import annotations

import httpx
import openai
import pytest

from .http_fake import ANSWER, FakeRouter, FakeService

QUESTION = [{"role": "user", "content": "Hi"}]
RENDERED = "<user>Hi\n<assistant>"


def test_whole(client: openai.OpenAI, router: FakeRouter) -> None:
    answer = client.chat.completions.create(model="fake", messages=QUESTION)
    assert answer.object == "chat.completion"
    assert answer.id.startswith("chatcmpl-")
    (choice,) = answer.choices
    assert (choice.message.role, choice.message.content) == ("assistant", ANSWER)
    assert choice.finish_reason == "stop"
    assert answer.usage is not None
    assert answer.usage.prompt_tokens == len(RENDERED)
    assert bytes(router.tickets[0].generation.prompt).decode() == RENDERED


def test_stream(client: openai.OpenAI) -> None:
    chunks = list(client.chat.completions.create(model="fake", messages=QUESTION, stream=True))
    first = chunks[0].choices[0].delta
    assert (first.role, first.content) == ("assistant", "")
    assert all(chunk.choices[0].delta.role is None for chunk in chunks[1:])
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == ANSWER
    assert [chunk.choices[0].finish_reason for chunk in chunks[:-1]] == [None] * (len(chunks) - 1)
    assert chunks[-1].choices[0].finish_reason == "stop"
    assert all(chunk.usage is None for chunk in chunks)


def test_stream_with_usage_and_choices(client: openai.OpenAI) -> None:
    chunks = list(
        client.chat.completions.create(
            model="fake",
            messages=QUESTION,
            n=2,
            max_tokens=5,
            stream=True,
            stream_options={"include_usage": True},
        )
    )
    assert chunks[-1].choices == []
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens == 10
    roles = [chunk.choices[0].index for chunk in chunks[:-1] if chunk.choices[0].delta.role]
    ends = [chunk.choices[0].index for chunk in chunks[:-1] if chunk.choices[0].finish_reason]
    assert sorted(roles) == sorted(ends) == [0, 1]


def test_length_defaults_to_what_is_left(client: openai.OpenAI, router: FakeRouter) -> None:
    client.chat.completions.create(model="fake", messages=QUESTION)
    assert router.tickets[0].generation.max_tokens == router.max_model_len - len(RENDERED)


@pytest.mark.parametrize("limits", [{"max_tokens": 3}, {"max_completion_tokens": 3, "max_tokens": 9}])
def test_length(client: openai.OpenAI, limits: dict[str, int]) -> None:
    answer = client.chat.completions.create(model="fake", messages=QUESTION, **limits)
    assert answer.choices[0].message.content == "Hel"
    assert answer.choices[0].finish_reason == "length"


def test_parts_names_and_earlier_answers(client: openai.OpenAI, router: FakeRouter) -> None:
    earlier = client.chat.completions.create(model="fake", messages=QUESTION, max_tokens=3)
    parts = [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]
    messages = [
        {"role": "developer", "content": "Be brief", "name": "boss"},
        earlier.choices[0].message.model_dump(),
        {"role": "user", "content": parts},
    ]
    client.chat.completions.create(model="fake", messages=messages)
    rendered = bytes(router.tickets[-1].generation.prompt).decode()
    assert rendered == "<system>Be brief\n<assistant>Hel\n<user>one\ntwo\n<assistant>"


def test_harmless_fields_are_accepted(client: openai.OpenAI) -> None:
    client.chat.completions.create(
        model="/models/fake.gguf",
        messages=QUESTION,
        user="me",
        metadata={"a": "b"},
        store=False,
        service_tier="auto",
        presence_penalty=0,
        frequency_penalty=0,
        logprobs=False,
        logit_bias={},
        response_format={"type": "text"},
        tools=[],
        tool_choice="none",
        parallel_tool_calls=True,
        modalities=["text"],
        extra_body={"min_p": 0.1, "top_k": 5, "ignore_eos": False},
    )


def test_model_may_be_left_out(http: httpx.Client) -> None:
    assert http.post("/v1/chat/completions", json={"messages": QUESTION}).status_code == 200


def test_model_without_a_template(http: httpx.Client, service: FakeService) -> None:
    template, service.template = service.template, None
    try:
        response = http.post("/v1/chat/completions", json={"messages": QUESTION})
    finally:
        service.template = template
    assert response.status_code == 400
    assert "chat template" in response.json()["error"]["message"]
