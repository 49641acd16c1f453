"""Deadlines, a full queue and the server's end, with real engines."""

from __future__ import annotations

import re
import signal
import ssl
import threading
import time
from pathlib import Path

import httpx
import openai
import pytest

from tests.api.test_api_access import make_certificate
from tests.processes import alive, children

from .metrics import wait_until_idle
from .process import Server, serving

LONG = {"prompt": "Once", "max_tokens": 4000, "ignore_eos": True}
SMALL = ["--kv-pool-size", "64MiB", "--colocate"]


@pytest.mark.parametrize("stream", [False, True])
def test_a_timeout_ends_the_answer_and_frees_its_pages(server: Server, stream: bool) -> None:
    body = {
        **LONG,
        "timeout": 0.6,
        "stream": stream,
        "stream_options": {"include_usage": True} if stream else None,
    }
    began = time.monotonic()
    answer = httpx.post(f"{server.url}/v1/completions", json=body, timeout=30)
    assert 0.5 < time.monotonic() - began < 3
    assert '"finish_reason":"timeout"' in answer.text
    count = re.search(r'"completion_tokens":(\d+)', answer.text)
    assert count is not None
    assert 1 < int(count[1]) < 4000
    wait_until_idle(server.url, 2)


def test_a_timeout_in_the_queue(model_path: Path) -> None:
    """More requests than run at a time: those still waiting end with nothing written."""
    with serving(*SMALL, "--max-batch-size", "8") as server:
        body = {**LONG, "n": 16, "max_tokens": 1000, "timeout": 0.5}
        choices = httpx.post(f"{server.url}/v1/completions", json=body, timeout=30).json()["choices"]
        assert {choice["finish_reason"] for choice in choices} == {"timeout"}
        assert "" in {choice["text"] for choice in choices}
        wait_until_idle(server.url, 2)


def test_a_full_queue_refuses_at_once_and_recovers(model_path: Path) -> None:
    with (
        serving(*SMALL, "--max-queue", "4", "--max-batch-size", "2") as server,
        httpx.Client(base_url=server.url, timeout=60) as client,
    ):
        outcomes: list[tuple[float, httpx.Response]] = []

        def ask() -> None:
            began = time.monotonic()
            response = client.post("/v1/completions", json={**LONG, "max_tokens": 60})
            outcomes.append((time.monotonic() - began, response))

        threads = [threading.Thread(target=ask) for _ in range(24)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        refused = [(took, answer) for took, answer in outcomes if answer.status_code == 429]
        assert len(outcomes) - len(refused) >= 6
        assert len(refused) >= 8
        assert all(answer.status_code in (200, 429) for _, answer in outcomes)
        assert all(int(answer.headers["retry-after"]) >= 1 for _, answer in refused)
        assert sorted(took for took, _ in refused)[len(refused) // 2] < 1
        ask()
        assert outcomes[-1][1].status_code == 200
        batch = {**LONG, "prompt": ["a"] * 5}
        assert client.post("/v1/completions", json=batch).status_code == 400


def test_what_does_not_end_in_time_is_told_so(model_path: Path) -> None:
    with serving(*SMALL, "--shutdown-timeout", "0.5") as server:
        body = {**LONG, "stream": True}
        with httpx.stream("POST", f"{server.url}/v1/completions", json=body, timeout=30) as response:
            lines = response.iter_lines()
            next(lines)
            began = time.monotonic()
            server.process.send_signal(signal.SIGTERM)
            time.sleep(0.1)
            late = httpx.post(f"{server.url}/v1/completions", json=LONG)
            assert (late.status_code, late.headers["connection"]) == (503, "close")
            assert httpx.get(f"{server.url}/ready").status_code == 503
            assert "the server is stopping" in [line for line in lines if line][-1]
        assert server.process.wait(10) == 0
        assert time.monotonic() - began < 4


def test_a_second_sigterm_ends_at_once(model_path: Path) -> None:
    with serving(*SMALL) as server:
        body = {**LONG, "stream": True}
        with httpx.stream("POST", f"{server.url}/v1/completions", json=body, timeout=30) as response:
            lines = response.iter_lines()
            next(lines)
            server.process.send_signal(signal.SIGTERM)
            time.sleep(0.3)
            began = time.monotonic()
            server.process.send_signal(signal.SIGTERM)
            assert "the server is stopping" in [line for line in lines if line][-1]
        assert server.process.wait(10) == 0
        assert time.monotonic() - began < 2.5


def test_sigkill_leaves_no_process(model_path: Path) -> None:
    """Shared memory has no name, so it goes with them; the socket's folder goes at the next start."""
    with serving(*SMALL, exit_code=-signal.SIGKILL) as server:
        chat = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1}
        assert httpx.post(f"{server.url}/v1/chat/completions", json=chat, timeout=30).status_code == 200
        started = children(server.process.pid)
        assert len(started) == 2  # the engine, and the one that renders chats
        with httpx.stream("POST", f"{server.url}/v1/completions", json={**LONG, "stream": True}) as response:
            next(response.iter_lines())
            server.process.kill()
        deadline = time.monotonic() + 5
        while any(alive(pid) for pid in started):
            assert time.monotonic() < deadline
            time.sleep(0.01)


def test_keys_and_tls_together(model_path: Path, tmp_path: Path) -> None:
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    authority = make_certificate(cert, key)
    options = ["--ssl-certfile", str(cert), "--ssl-keyfile", str(key), "--api-key", "sk-real"]
    with serving(*SMALL, *options) as server:
        assert server.url.startswith("https://")
        asked = {"model": "smollm2", "prompt": "Once", "max_tokens": 2}
        trust = ssl.create_default_context()
        authority.configure_trust(trust)
        with httpx.Client(verify=trust) as http:
            client = openai.OpenAI(
                base_url=f"{server.url}/v1", api_key="sk-real", http_client=http, max_retries=0
            )
            assert client.completions.create(**asked).choices[0].finish_reason == "length"
            with pytest.raises(openai.AuthenticationError, match="not known here"):
                client.with_options(api_key="sk-fake").completions.create(**asked)
