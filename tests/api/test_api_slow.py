"""Clients that send slowly, read slowly, or never end, over bare sockets."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from twinfer.api.limits import Limits

from .http_fake import FakeService, wait_until
from .threaded import connect, read_all, serving

HOST = b"Host: localhost\r\n"
POST = b"POST /v1/completions HTTP/1.1\r\n" + HOST
ESTABLISHED = "01"  # in the kernel's table of connections
LIMITS = Limits(read_timeout=0.4, send_timeout=0.5, max_header_size=2000, max_connections=20)


@pytest.fixture(scope="module")
def servers() -> Iterator[dict[str, tuple[FakeService, str]]]:
    """One that does not wait long, and one that does, however short the heads it takes; with their addresses.

    A loaded machine makes clients slow.
    """
    patient = Limits(max_header_size=LIMITS.max_header_size, max_connections=LIMITS.max_connections)
    hasty_service, patient_service = FakeService(), FakeService()
    with serving(hasty_service, LIMITS) as hasty_url, serving(patient_service, patient) as patient_url:
        yield {"hasty": (hasty_service, hasty_url), "patient": (patient_service, patient_url)}


@pytest.fixture
def hasty_service(servers: dict[str, tuple[FakeService, str]]) -> FakeService:
    servers["hasty"][0].router.reset()
    return servers["hasty"][0]


@pytest.fixture
def hasty(servers: dict[str, tuple[FakeService, str]], hasty_service: FakeService) -> str:
    return servers["hasty"][1]


@pytest.fixture
def patient_service(servers: dict[str, tuple[FakeService, str]]) -> FakeService:
    servers["patient"][0].router.reset()
    return servers["patient"][0]


@pytest.fixture
def patient(servers: dict[str, tuple[FakeService, str]], patient_service: FakeService) -> str:
    return servers["patient"][1]


def exchange(url: str, *pieces: bytes, pause: float = 0.05) -> bytes:
    """What the server says before it closes, to pieces sent one after the other."""
    with connect(url) as connection:
        try:
            for number, piece in enumerate(pieces):
                if number:
                    time.sleep(pause)
                connection.sendall(piece)
        except OSError:
            pass  # it has closed already
        return read_all(connection)


def has_closed(connection: socket.socket) -> bool:
    """Whether the server, in this process, has closed its end; the kernel may still have data to send."""
    ends = [f":{end[1]:04X}" for end in (connection.getpeername(), connection.getsockname())]
    rows = [line.split() for line in Path("/proc/self/net/tcp").read_text().splitlines()]
    [state] = [row[3] for row in rows if [row[1][8:], row[2][8:]] == ends] or ["gone"]
    return state != ESTABLISHED


def status_of(reply: bytes) -> int:
    head, _, body = reply.partition(b"\r\n\r\n")
    status = int(head.split()[1])
    assert status < 400 or json.loads(body)["error"]["message"]
    return status


def test_nothing_is_sent(hasty: str) -> None:
    assert exchange(hasty) == b""


def test_a_head_byte_by_byte(hasty: str) -> None:
    began = time.monotonic()
    reply = exchange(hasty, *(bytes([byte]) for byte in POST))
    assert status_of(reply) == 408
    assert time.monotonic() - began < 5


def test_a_body_byte_by_byte(hasty: str) -> None:
    reply = exchange(hasty, POST + b"Content-Length: 1000\r\n\r\n", *([b" "] * 40))
    assert status_of(reply) == 408


def test_a_chunked_body_byte_by_byte(hasty: str) -> None:
    reply = exchange(hasty, POST + b"Transfer-Encoding: chunked\r\n\r\n", *([b"1\r\n \r\n"] * 40))
    assert status_of(reply) == 408


def test_a_body_that_nobody_reads(hasty: str) -> None:
    """The answer is there before the body; the rest is thrown away, but not for ever."""
    head = b"POST /health HTTP/1.1\r\n" + HOST + b"Content-Length: 1000\r\n\r\n"
    reply = exchange(hasty, head, *([b" "] * 40))
    assert status_of(reply) == 405


@pytest.mark.parametrize(
    "pieces",
    [
        [POST + b"X: " + b"x" * 3000 + b"\r\n\r\n"],
        [POST + b"X: ", *([b"x" * 500] * 8)],
        [POST, *([b"X: " + b"x" * 500 + b"\r\n"] * 8)],
        [b"GET /" + b"x" * 3000 + b" HTTP/1.1\r\n" + HOST + b"\r\n"],
        [b"GET /", *([b"x" * 500] * 8)],
        [b"\r\n" * 3000],
    ],
    ids=["whole", "one value", "many", "target", "target in pieces", "empty lines"],
)
def test_an_endless_head(patient: str, pieces: list[bytes]) -> None:
    reply = exchange(patient, *pieces, pause=0.01)
    assert reply == b"" or status_of(reply) == 431


def test_endless_trailers(patient: str) -> None:
    head = POST + b"Transfer-Encoding: chunked\r\n\r\n1\r\n \r\n0\r\n"
    reply = exchange(patient, head, *([b"X: " + b"x" * 500 + b"\r\n"] * 8), pause=0.01)
    assert status_of(reply) == 431


@pytest.mark.parametrize(
    "text", [b"nonsense\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00", b"GET\r\n\r\n", b"\x00"]
)
def test_what_is_no_http(patient: str, text: bytes) -> None:
    assert status_of(exchange(patient, text)) == 400


def test_too_many_requests_in_a_row(patient: str, patient_service: FakeService) -> None:
    patient_service.router.script = lambda generation: [30.0]
    body = b'{"prompt": "a"}'
    request = POST + b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
    assert status_of(exchange(patient, request * 40)) == 400
    wait_until(lambda: all(ticket.finish_reason for ticket in patient_service.router.tickets))


def test_a_few_requests_in_a_row(patient: str) -> None:
    last = b"GET /version HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n"
    reply = exchange(patient, (b"GET /health HTTP/1.1\r\n" + HOST + b"\r\n") * 3 + last)
    assert reply.count(b"HTTP/1.1 200 OK") == 4


def test_slow_answers_are_not_slow_requests(hasty: str, hasty_service: FakeService) -> None:
    """What the client does not have to send is not waited for, whatever it sends after its request."""
    hasty_service.router.script = lambda generation: [1.0, [97, 256]]
    body = b'{"prompt": "a"}'
    with connect(hasty) as connection:
        connection.sendall(POST + b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        time.sleep(0.1)
        connection.sendall(b"\r\nGET /he")
        assert status_of(connection.recv(1 << 16)) == 200


def test_a_kept_connection_may_rest(hasty: str) -> None:
    with httpx.Client(base_url=hasty) as http:
        for _ in range(2):
            assert http.get("/health").status_code == 200
            time.sleep(1)


def test_a_client_that_does_not_read(hasty: str, hasty_service: FakeService) -> None:
    big = [97] * 4000
    hasty_service.router.script = lambda generation: [big, 0.001] * 4000
    hasty_service.router.max_model_len = 1 << 30
    body = b'{"prompt": "a", "stream": true, "max_tokens": 16000000}'
    with connect(hasty, receive_buffer=4096) as connection:
        connection.sendall(POST + b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        wait_until(lambda: hasty_service.router.tickets)
        (ticket,) = hasty_service.router.tickets
        wait_until(lambda: ticket.finish_reason == "cancelled", 5)
        assert ticket.given < 2_000_000


def test_a_client_that_does_not_read_the_end(hasty: str, hasty_service: FakeService) -> None:
    """The whole answer is written, and still there must be an end."""
    hasty_service.router.script = lambda generation: [[97] * 3_000_000, [256]]
    hasty_service.router.max_model_len = 1 << 30
    body = b'{"prompt": "a", "max_tokens": 16000000}'
    with connect(hasty, receive_buffer=4096) as connection:
        connection.sendall(POST + b"Content-Length: %d\r\nConnection: close\r\n\r\n%b" % (len(body), body))
        wait_until(lambda: has_closed(connection))
        assert len(read_all(connection)) < 3_000_000


def test_a_client_that_reads_slowly_but_steadily() -> None:
    """For longer than it may leave everything unread."""
    service = FakeService()
    service.router.script = lambda generation: [[97] * 2000] * 300
    service.router.max_model_len = 1 << 30
    body = b'{"prompt": "a", "max_tokens": 600000}'
    data = b""
    with serving(service, Limits(send_timeout=2)) as url, connect(url, receive_buffer=1 << 16) as connection:
        connection.sendall(POST + b"Content-Length: %d\r\nConnection: close\r\n\r\n%b" % (len(body), body))
        while piece := connection.recv(1 << 15):
            data += piece
            time.sleep(0.15)
    assert len(data) > 600_000


def test_too_many_connections(patient: str) -> None:
    held = [connect(patient) for _ in range(LIMITS.max_connections)]
    try:
        for connection in held:
            connection.sendall(b"GET /health HTTP/1.1\r\n" + HOST + b"\r\n")
            assert b"200 OK" in connection.recv(1 << 16)
        assert status_of(exchange(patient)) == 503
    finally:
        for connection in held:
            connection.close()
    wait_until(lambda: httpx.get(f"{patient}/health").status_code == 200)
    assert 'twinfer_http_responses_total{status="503"}' in httpx.get(f"{patient}/metrics").text


def test_others_are_served_meanwhile(patient: str) -> None:
    slow = [connect(patient) for _ in range(10)]
    try:
        with httpx.Client(base_url=patient) as http:
            for number in range(20):
                slow[number % len(slow)].sendall(b"GE"[number // len(slow) :][:1])
                assert http.post("/v1/completions", json={"prompt": "a"}).status_code == 200
    finally:
        for connection in slow:
            connection.close()
