"""The whole server with the default model, through the official client."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import httpx
import openai
import pytest

from tests.conftest import GOLDEN

from ..processes import children
from .process import Server, serving

FRANCE = [{"role": "user", "content": "What is the capital of France?"}]
PARIS = "The capital of France is Paris."


def test_capital_of_france(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(model="smollm2", messages=FRANCE, temperature=0)
    assert answer.choices[0].message.content == PARIS
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage is not None
    case = json.loads((GOLDEN / "greedy.json").read_text())["cases"][0]
    assert answer.usage.prompt_tokens == len(case["prompt_ids"])


def test_capital_of_france_as_a_stream(client: openai.OpenAI) -> None:
    chunks = list(
        client.chat.completions.create(
            model="smollm2",
            messages=FRANCE,
            temperature=0,
            stream=True,
            stream_options={"include_usage": True},
        )
    )
    assert chunks[0].choices[0].delta.role == "assistant"
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks[:-1]) == PARIS
    assert chunks[-2].choices[0].finish_reason == "stop"
    assert chunks[-1].usage is not None
    assert 2 <= len(chunks) - 2 <= chunks[-1].usage.completion_tokens  # tokens may come together


def test_curl_line_of_the_banner_works(server: Server) -> None:
    line = next(line for line in server.banner.splitlines() if "curl" in line)
    _, url, _, body = line.split(None, 3)
    response = httpx.post(url, content=body.strip("'"), timeout=30)
    assert response.json()["choices"][0]["message"]["content"] == PARIS


def test_banner_tells_the_engines(server: Server) -> None:
    engines = httpx.get(f"{server.url}/admin/engines").json()["engines"]
    assert sorted(engine["role"] for engine in engines) == ["decode", "prefill"]
    for engine in engines:
        assert set(engine) >= {"id", "role", "pid", "cores", "state", "running", "waiting"}
        assert f" {engine['pid']} " in server.banner
        os.kill(engine["pid"], 0)
    assert "smollm2" in server.banner
    assert "256 MiB" in server.banner


def test_stream_and_whole_are_the_same_text(client: openai.OpenAI) -> None:
    fields = {"model": "smollm2", "prompt": "Emoji are fun: 🤖🚀", "max_tokens": 48, "seed": 3}
    whole = client.completions.create(**fields)
    streamed = "".join(chunk.choices[0].text for chunk in client.completions.create(**fields, stream=True))
    assert streamed == whole.choices[0].text
    assert whole.usage is not None
    assert whole.usage.completion_tokens <= 48


def test_batch_of_prompts_and_choices(client: openai.OpenAI) -> None:
    fields = {"model": "smollm2", "max_tokens": 6, "seed": 11, "extra_body": {"ignore_eos": True}}
    both = client.completions.create(prompt=["Once upon", "The sky"], n=2, **fields)
    assert [choice.index for choice in both.choices] == [0, 1, 2, 3]
    alone = client.completions.create(prompt="The sky", **{**fields, "seed": 12})
    assert alone.choices[0].text == both.choices[3].text
    assert both.usage is not None
    assert both.usage.completion_tokens == 24


def test_stop_string(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(model="smollm2", messages=FRANCE, temperature=0, stop=[" of Fr"])
    assert answer.choices[0].message.content == "The capital"
    assert answer.choices[0].finish_reason == "stop"


def test_tokenize_agrees_with_the_golden_ids(server: Server) -> None:
    with httpx.Client(base_url=server.url) as http:
        for case in json.loads((GOLDEN / "tokenize.json").read_text()):
            body = http.post("/tokenize", json={"prompt": case["text"]}).json()
            assert body["tokens"] == case["ids"]
            assert body["count"] == len(case["ids"])
        body = http.post("/detokenize", json={"tokens": case["ids"]}).json()
        assert body["prompt"] == case["text"]


def test_prompt_over_the_context(client: openai.OpenAI, server: Server) -> None:
    limit = httpx.post(f"{server.url}/tokenize", json={"prompt": "x"}).json()["max_model_len"]
    with pytest.raises(openai.BadRequestError, match=str(limit)) as caught:
        client.completions.create(model="smollm2", prompt="word " * limit, stream=True)
    assert caught.value.code == "context_length_exceeded"


def test_hangup_frees_the_engines(server: Server) -> None:
    with httpx.Client(base_url=server.url, timeout=30) as http:
        body = {"prompt": "Once", "max_tokens": 4000, "ignore_eos": True, "stream": True}
        with http.stream("POST", "/v1/completions", json=body) as response:
            lines = response.iter_lines()  # kept, since httpx hangs up when it is collected
            next(lines)
            assert sum(running(http)) == 1
    with httpx.Client(base_url=server.url) as http:
        deadline = time.monotonic() + 2
        while sum(running(http)):
            assert time.monotonic() < deadline
            time.sleep(0.01)


def running(http: httpx.Client) -> list[int]:
    return [engine["running"] for engine in http.get("/admin/engines").json()["engines"]]


def test_sigterm_lets_answers_end_and_leaves_no_process(model_path: Path) -> None:
    with serving("--colocate", "--kv-pool-size", "64MiB") as server:
        with httpx.Client(base_url=server.url, timeout=30) as http:
            (engine,) = http.get("/admin/engines").json()["engines"]
            assert engine["role"] == "mixed"
            body = {"prompt": "Once", "max_tokens": 60, "ignore_eos": True, "stream": True}
            with http.stream("POST", "/v1/completions", json=body) as response:
                lines = response.iter_lines()
                next(lines)
                server.process.send_signal(signal.SIGTERM)
                assert [line for line in lines if line][-1] == "data: [DONE]"
        assert server.process.wait(10) == 0
    with pytest.raises(ProcessLookupError):
        os.kill(engine["pid"], 0)


def test_nothing_listens_on_anything_but_loopback(server: Server) -> None:
    """Not the server, unless told to, and not what is between its processes."""
    pids = [server.process.pid, *children(server.process.pid)]
    opened = [entry.readlink() for pid in pids for entry in Path(f"/proc/{pid}/fd").iterdir()]
    sockets = {str(target)[len("socket:[") : -1] for target in opened if str(target).startswith("socket:")}
    listening: list[str] = []
    for table in ("tcp", "tcp6", "udp", "udp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            _, local, remote, _, *rest = line.split()
            if rest[5] in sockets and int(remote.rpartition(":")[2], 16) == 0:
                listening.append(f"{table} {local.rpartition(':')[0]}")
    assert listening == ["tcp 0100007F"]
