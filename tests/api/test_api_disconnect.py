"""Clients that hang up: their answers are cancelled at once, others go on."""

from __future__ import annotations

import socket
import threading

import httpx
import pytest

from .http_fake import FakeRouter, bytewise, wait_until

SLOW = 30.0


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("started", [False, True])
def test_hangup_cancels(address: str, router: FakeRouter, stream: bool, started: bool) -> None:
    router.script = lambda generation: [*([[97]] if started else []), SLOW, [98]]
    with raw_post(
        address, f'{{"prompt": ["a", "b"], "n": 2, "stream": {str(stream).lower()}}}'
    ) as connection:
        if stream and started:
            assert b"200 OK" in connection.recv(1 << 16)
        wait_until(lambda: len(router.tickets) == 4)
        assert {ticket.finish_reason for ticket in router.tickets} == {None}
    wait_until(lambda: all(ticket.finish_reason == "cancelled" for ticket in router.tickets), 2)


def test_hangup_within_a_running_stream(address: str, router: FakeRouter) -> None:
    router.script = lambda generation: [step for _ in range(1000) for step in ([97], 0.01)]
    with httpx.Client(base_url=address) as http:
        body = {"prompt": "a", "stream": True, "max_tokens": 500}
        with http.stream("POST", "/v1/completions", json=body) as response:
            next(response.iter_lines())
    wait_until(lambda: router.tickets[0].finish_reason == "cancelled", 2)
    assert router.tickets[0].given < 400


def test_hangup_before_the_body_is_complete(address: str, http: httpx.Client) -> None:
    with raw_post(address, '{"prompt"', length=100):
        pass
    assert http.get("/health").status_code == 200


def test_others_go_on(address: str, http: httpx.Client, router: FakeRouter) -> None:
    router.script = lambda generation: [0.2, *bytewise("done")] if generation.prompt == [97] else [SLOW]
    answers: list[str] = []

    def ask() -> None:
        response = http.post("/v1/completions", json={"prompt": "a"})
        answers.append(response.json()["choices"][0]["text"])

    thread = threading.Thread(target=ask)
    thread.start()
    with raw_post(address, '{"prompt": "b"}'):
        wait_until(lambda: len(router.tickets) == 2)
    thread.join(5)
    assert answers == ["done"]


def raw_post(address: str, body: str, length: int | None = None) -> socket.socket:
    """A connection over which a request has been sent, and no answer read."""
    host, port = address.removeprefix("http://").split(":")
    connection = socket.create_connection((host, int(port)), timeout=5)
    head = f"POST /v1/completions HTTP/1.1\r\nHost: {host}\r\nContent-Length: {length or len(body)}\r\n\r\n"
    connection.sendall((head + body).encode())
    return connection
