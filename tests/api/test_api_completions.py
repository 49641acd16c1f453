"""POST /v1/completions, whole and as a stream."""

from __future__ import annotations

import json

import httpx
import openai
import pytest

from .http_fake import ANSWER, EOS, FakeRouter, FakeService, bytewise

PROMPT = "Once"


def complete(http: httpx.Client, **fields: object) -> dict[str, object]:
    response = http.post("/v1/completions", json={"prompt": PROMPT, "max_tokens": 100, **fields})
    assert response.status_code == 200, response.text
    return response.json()


def events(response: httpx.Response) -> list[str]:
    """The data of each event; the framing must be exact."""
    assert response.headers["content-type"].startswith("text/event-stream")
    assert response.text.endswith("\n\n")
    lines = response.text.removesuffix("\n\n").split("\n\n")
    assert all(line.startswith("data: ") and "\n" not in line for line in lines)
    return [line.removeprefix("data: ") for line in lines]


def test_whole(http: httpx.Client) -> None:
    body = complete(http)
    assert body["object"] == "text_completion"
    assert body["model"] == "fake"
    assert str(body["id"]).startswith("cmpl-")
    assert body["choices"] == [{"index": 0, "text": ANSWER, "finish_reason": "stop", "logprobs": None}]
    count = len(ANSWER.encode()) + 1
    assert body["usage"] == {
        "prompt_tokens": 4,
        "completion_tokens": count,
        "total_tokens": 4 + count,
        "prompt_tokens_details": {"cached_tokens": 0},
    }


def test_stream_framing(http: httpx.Client) -> None:
    response = http.post("/v1/completions", json={"prompt": PROMPT, "max_tokens": 100, "stream": True})
    *chunks, last = events(response)
    assert last == "[DONE]"
    decoded = [json.loads(chunk) for chunk in chunks]
    assert len({chunk["id"] for chunk in decoded}) == 1
    assert all("usage" not in chunk for chunk in decoded)
    choices = [chunk["choices"][0] for chunk in decoded]
    assert "".join(choice["text"] for choice in choices) == ANSWER
    assert [choice["finish_reason"] for choice in choices] == [None] * (len(choices) - 1) + ["stop"]


def test_no_event_holds_a_broken_character(http: httpx.Client) -> None:
    response = http.post("/v1/completions", json={"prompt": PROMPT, "max_tokens": 100, "stream": True})
    assert "\N{REPLACEMENT CHARACTER}" not in response.text
    texts = [json.loads(event)["choices"][0]["text"] for event in events(response)[:-1]]
    assert "ö" in texts
    assert "🤖" in texts


def test_usage_in_a_stream_comes_last_and_alone(http: httpx.Client) -> None:
    body = {"prompt": PROMPT, "stream": True, "stream_options": {"include_usage": True}}
    *chunks, usage, done = events(http.post("/v1/completions", json=body))
    assert done == "[DONE]"
    assert all(json.loads(chunk)["usage"] is None for chunk in chunks)
    last = json.loads(usage)
    assert last["choices"] == []
    assert last["usage"] == {
        "prompt_tokens": 4,
        "completion_tokens": 16,
        "total_tokens": 20,
        "prompt_tokens_details": {"cached_tokens": 0},
    }


def test_default_length_is_16(client: openai.OpenAI) -> None:
    answer = client.completions.create(model="fake", prompt=PROMPT)
    assert answer.choices[0].finish_reason == "length"
    assert answer.choices[0].text == ANSWER.encode()[:16].decode(errors="replace")


@pytest.mark.parametrize(
    ("prompt", "submitted"),
    [
        ("ab", [[97, 98]]),
        ([1, 2, 3], [[1, 2, 3]]),
        (["ab", "c"], [[97, 98], [99]]),
        ([[1, 2], [3]], [[1, 2], [3]]),
        (["ab", [3]], [[97, 98], [3]]),
    ],
)
def test_kinds_of_prompt(
    client: openai.OpenAI, router: FakeRouter, prompt: object, submitted: list[list[int]]
) -> None:
    answer = client.completions.create(model="fake", prompt=prompt, max_tokens=3)
    assert [ticket.generation.prompt for ticket in router.tickets] == submitted
    assert [choice.index for choice in answer.choices] == list(range(len(submitted)))
    assert answer.usage is not None
    assert answer.usage.prompt_tokens == sum(map(len, submitted))


def test_choices_have_seeds_of_their_own(client: openai.OpenAI, router: FakeRouter) -> None:
    answer = client.completions.create(model="fake", prompt=["a", "b"], n=3, seed=2**64 - 1, max_tokens=2)
    assert [choice.index for choice in answer.choices] == list(range(6))
    assert [ticket.generation.sampling.seed for ticket in router.tickets] == [2**64 - 1, 0, 1] * 2
    assert answer.usage is not None
    assert answer.usage.prompt_tokens == 2


def test_without_a_seed_answers_differ_unless_the_server_has_one(
    http: httpx.Client, router: FakeRouter, service: FakeService
) -> None:
    complete(http)
    complete(http)
    first, second = (ticket.generation.sampling.seed for ticket in router.tickets)
    assert first != second
    service.config.seed = 7
    try:
        complete(http)
    finally:
        service.config.seed = None
    assert router.tickets[-1].generation.sampling.seed == 7


def test_streams_of_several_answers(http: httpx.Client, router: FakeRouter) -> None:
    router.script = lambda generation: bytewise(bytes(generation.prompt).decode() * 5)
    body = {"prompt": ["é", "ü"], "n": 2, "stream": True, "echo": True, "max_tokens": 50}
    texts = dict.fromkeys(range(4), "")
    for event in events(http.post("/v1/completions", json=body))[:-1]:
        (choice,) = json.loads(event)["choices"]
        texts[choice["index"]] += choice["text"]
    assert texts == {0: "é" * 6, 1: "é" * 6, 2: "ü" * 6, 3: "ü" * 6}


def test_sampling_reaches_the_router(http: httpx.Client, router: FakeRouter) -> None:
    complete(http, temperature=0, top_p=0.5, top_k=-1, min_p=0.1, seed=-1, max_tokens=5)
    generation = router.tickets[0].generation
    assert generation.max_tokens == 5
    sampling = generation.sampling
    assert (sampling.temperature, sampling.top_p, sampling.top_k, sampling.min_p) == (0, 0.5, 0, 0.1)
    assert sampling.seed == 2**64 - 1
    complete(http)
    assert router.tickets[1].generation.sampling.temperature == 1


def test_length_ends_with_the_context(http: httpx.Client, router: FakeRouter) -> None:
    complete(http, max_tokens=10**30)
    assert router.tickets[0].generation.max_tokens == router.max_model_len - 4


def test_end_token_can_be_ignored(http: httpx.Client) -> None:
    body = complete(http, ignore_eos=True, max_tokens=40)
    assert body["choices"][0]["text"].startswith(ANSWER + "xxx")
    assert body["choices"][0]["finish_reason"] == "length"


def test_stop_tokens_of_ones_own_are_not_shown(http: httpx.Client, router: FakeRouter) -> None:
    body = complete(http, stop_token_ids=[ord("w")])
    assert body["choices"][0]["text"] == "Hello, "
    assert router.tickets[0].generation.stop_tokens == (EOS, ord("w"))


@pytest.mark.parametrize("stop", ["wör", ["zzz", "wör"], [", wörld 🤖", "unseen"]])
def test_stop_strings(client: openai.OpenAI, router: FakeRouter, stop: object) -> None:
    answer = client.completions.create(model="fake", prompt=PROMPT, stop=stop, max_tokens=100)
    shown = "Hello" if isinstance(stop, list) and stop[0].startswith(",") else "Hello, "
    assert answer.choices[0].text == shown
    assert answer.choices[0].finish_reason == "stop"
    assert router.tickets[0].finish_reason == "cancelled"
    assert router.tickets[0].given < len(ANSWER.encode())
    chunks = list(
        client.completions.create(model="fake", prompt=PROMPT, stop=stop, max_tokens=100, stream=True)
    )
    assert "".join(chunk.choices[0].text for chunk in chunks) == shown
    assert chunks[-1].choices[0].finish_reason == "stop"


def test_start_of_a_stop_string_is_shown_in_the_end(http: httpx.Client) -> None:
    assert complete(http, stop="🤖!?")["choices"][0]["text"] == ANSWER


def test_echo(client: openai.OpenAI) -> None:
    assert client.completions.create(model="fake", prompt="ab", echo=True, max_tokens=5).choices[0].text == (
        "abHello"
    )
    ids = client.completions.create(model="fake", prompt=[97, 98], echo=True, max_tokens=5)
    assert ids.choices[0].text == "abHello"


def test_tokens_that_come_together_are_one_event(http: httpx.Client, router: FakeRouter) -> None:
    router.script = lambda generation: [list(b"Hello"), [*b" there", EOS]]
    body = {"prompt": PROMPT, "stream": True, "max_tokens": 100}
    texts = [
        json.loads(event)["choices"][0]["text"]
        for event in events(http.post("/v1/completions", json=body))[:-1]
    ]
    assert texts == ["Hello", " there", ""]
