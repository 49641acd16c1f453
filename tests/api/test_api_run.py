"""Starting and stopping: sockets and signals."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest

from twinfer.api import listen
from twinfer.errors import ConfigError

from .http_fake import wait_until
from .threaded import connect


@contextmanager
def started(kind: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A process and its address. Answers take 0.2 s if `kind` is "short", 1 s if "middling", else for ever.

    An "impatient" one gives answers 0.5 s to end when it is to stop.
    """
    command = [sys.executable, "-m", "tests.api.serve_fake", kind]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()


def ended(process: subprocess.Popen[str]) -> None:
    """The process closed its service and ended without complaint."""
    out, errors = process.communicate(timeout=10)
    assert out == "closed\n"
    assert errors == ""
    assert process.returncode == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_stop_when_idle(number: int) -> None:
    with started("short") as (process, url), httpx.Client(base_url=url) as http:
        assert http.get("/health").status_code == 200
        process.send_signal(number)
        ended(process)


def test_stop_lets_answers_end() -> None:
    with started("short") as (process, url), stream(url) as lines:
        next(lines)
        process.send_signal(signal.SIGTERM)
        assert [line for line in lines if line][-1] == "data: [DONE]"
        ended(process)


def test_second_signal_cuts_answers_short_and_says_so() -> None:
    with started("endless") as (process, url), stream(url) as lines:
        next(lines)
        process.send_signal(signal.SIGINT)
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        assert "the server is stopping" in [line for line in lines if line][-1]
        ended(process)


def test_what_is_not_done_in_time_is_cut_short() -> None:
    with started("impatient") as (process, url), stream(url) as lines:
        next(lines)
        process.send_signal(signal.SIGTERM)
        assert "the server is stopping" in [line for line in lines if line][-1]
        ended(process)


def test_new_requests_are_refused_while_old_ones_end() -> None:
    with started("middling") as (process, url), stream(url) as lines:
        next(lines)
        with httpx.Client(base_url=url) as http:
            assert http.get("/ready").status_code == 200
            process.send_signal(signal.SIGTERM)
            wait_until(lambda: http.get("/ready").status_code == 503)
            assert http.get("/ready").json() == {"status": "stopping"}
            assert http.get("/health").status_code == 200
            refused = http.post("/v1/completions", json={"prompt": "b"})
            assert refused.status_code == 503
            assert refused.headers["connection"] == "close"
            assert refused.headers["retry-after"] == "1"
            assert refused.json()["error"]["message"] == "the server is stopping"
        assert [line for line in lines if line][-1] == "data: [DONE]"
        ended(process)


def test_a_client_that_does_not_read_does_not_hold_the_server() -> None:
    with started("endless") as (process, url), connect(url, receive_buffer=4096) as connection:
        body = b'{"prompt": "a", "stream": true, "n": 128}'
        head = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body)
        connection.sendall(head + body)
        time.sleep(0.2)
        process.send_signal(signal.SIGTERM)
        time.sleep(0.2)
        process.send_signal(signal.SIGTERM)
        ended(process)


def test_signal_while_starting() -> None:
    with started("interrupted") as (process, url):
        assert url == ""
        assert process.wait(10) == 0


@contextmanager
def stream(url: str) -> Iterator[Iterator[str]]:
    body = {"prompt": "a", "stream": True}
    with httpx.stream("POST", f"{url}/v1/completions", json=body, timeout=10) as response:
        yield response.iter_lines()


def test_addresses_that_cannot_be_had() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=f"port {port} on 127.0.0.1 is already in use"):
            listen.bind("127.0.0.1", port)
    for host, port, message in (
        ("127.0.0.1", -1, "port must be from 0 to 65535"),
        ("192.0.2.1", 0, "not an address of this machine"),
        ("nowhere.invalid", 0, "not a known name"),
        ("x" * 300, 0, "not a known name"),
    ):
        with pytest.raises(ConfigError, match=message):
            listen.bind(host, port)


def test_port_taken_between_bind_and_listen() -> None:
    with listen.bind("127.0.0.1", 0) as first:
        port = first.getsockname()[1]
        with listen.bind("127.0.0.1", port) as second:
            listen.start_listening(first)
            with pytest.raises(ConfigError, match="already in use"):
                listen.start_listening(second)


def test_urls() -> None:
    with listen.bind("0.0.0.0", 0) as bound:
        assert listen.url(bound) == f"http://127.0.0.1:{bound.getsockname()[1]}"
    with listen.bind("localhost", 0) as bound:
        assert listen.url(bound).startswith("http://")
