"""Deadlines, full queues, and limits on what a request may ask for."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import httpx
import openai
import pytest

from twinfer.api.access import access
from twinfer.api.limits import Limits
from twinfer.errors import ConfigError, OverloadedError

from .http_fake import FakeRouter, FakeService, wait_until
from .test_api_errors import MESSAGES, error_of
from .threaded import connect, serving

LIMITS = Limits(
    max_queue=8,
    max_streams=2,
    max_body_size=5000,
    max_answer_tokens=20,
    max_choices=3,
    max_stop_strings=2,
    request_timeout=0.3,
)


@pytest.fixture(scope="module")
def strict_service() -> FakeService:
    return FakeService()


@pytest.fixture(scope="module")
def strict_url(strict_service: FakeService) -> Iterator[str]:
    with serving(strict_service, LIMITS) as url:
        yield url


@pytest.fixture
def strict(strict_url: str, strict_service: FakeService) -> Iterator[httpx.Client]:
    strict_service.router.reset()
    with httpx.Client(base_url=strict_url, timeout=10) as client:
        yield client


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("started", [False, True])
def test_timeout_in_the_request(
    client: openai.OpenAI, router: FakeRouter, stream: bool, started: bool
) -> None:
    router.script = lambda generation: [*([[*b"Hel"]] if started else []), 30.0]
    asked = {"model": "fake", "messages": MESSAGES, "n": 2, "extra_body": {"timeout": 0.2}}
    if stream:
        chunks = list(client.chat.completions.create(**asked, stream=True))
        texts = [chunk.choices[0].delta.content or "" for chunk in chunks]
        finishes = [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices[0].finish_reason]
    else:
        choices = client.chat.completions.create(**asked).choices
        texts = [choice.message.content or "" for choice in choices]
        finishes = [choice.finish_reason for choice in choices]
    assert finishes == ["timeout", "timeout"]
    assert "".join(texts) == ("HelHel" if started else "")


@pytest.mark.parametrize("timeout", [None, 100, 1e300])
def test_timeout_of_the_server(
    strict: httpx.Client, strict_service: FakeService, timeout: float | None
) -> None:
    strict_service.router.script = lambda generation: [30.0]
    body = strict.post("/v1/completions", json={"prompt": "a", "timeout": timeout}).json()
    assert body["choices"][0]["finish_reason"] == "timeout"


@pytest.mark.parametrize("timeout", [0, -1, "soon"])
def test_timeouts_that_make_no_sense(http: httpx.Client, timeout: object) -> None:
    response = http.post("/v1/completions", json={"prompt": "a", "timeout": timeout})
    assert error_of(response, 400)["param"] == "timeout"


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"max_tokens": 21}, "max_tokens"),
        ({"n": 4}, "n"),
        ({"n": 3, "prompt": ["a", "b", "c"]}, "n"),
        ({"stop": ["a", "b", "c"]}, "stop"),
        ({"stop": "a" * 1025}, "stop"),
        ({"stop_token_ids": [1] * 257}, "stop_token_ids"),
        ({"priority": 101}, "priority"),
        ({"prompt": "a" * 600}, "prompt"),
    ],
    ids=str,
)
def test_what_a_request_may_not_ask_for(strict: httpx.Client, fields: dict[str, object], param: str) -> None:
    error = error_of(strict.post("/v1/completions", json={"prompt": "a", **fields}), 400)
    assert error["param"] == param


def test_answers_without_a_limit_of_their_own_get_the_server_s(
    strict: httpx.Client, strict_service: FakeService
) -> None:
    strict.post("/v1/chat/completions", json={"messages": MESSAGES})
    assert strict_service.router.tickets[0].generation.max_tokens == 20


def test_a_body_over_the_limit(strict: httpx.Client) -> None:
    assert "5000 bytes" in error_of(strict.post("/tokenize", json={"prompt": "a" * 5000}), 413)["message"]


def test_many_large_bodies_at_once() -> None:
    """Sixteen largest bodies may be on their way; what is more is refused, and room comes back."""
    head = b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n"
    limits = Limits(max_body_size=100_000)
    with serving(FakeService(), limits) as url, httpx.Client(base_url=url) as http:
        held = [connect(url) for _ in range(17)]
        for connection in held:
            connection.sendall(head + b" " * 98_000)
        body = {"prompt": "a" * 90_000}
        wait_until(lambda: http.post("/tokenize", json=body).status_code == 429)
        for connection in held:
            connection.close()
        wait_until(lambda: http.post("/tokenize", json=body).status_code == 200)


@pytest.mark.parametrize("stream", [False, True])
def test_a_full_queue(client: openai.OpenAI, http: httpx.Client, router: FakeRouter, stream: bool) -> None:
    router.waiting, router.retry_after = Limits().max_queue, 17.2
    response = http.post("/v1/completions", json={"prompt": "a", "stream": stream})
    error = error_of(response, 429)
    assert (error["type"], error["code"]) == ("rate_limit_error", "overloaded")
    assert response.headers["retry-after"] == "18"
    assert router.tickets == []
    with pytest.raises(openai.RateLimitError, match="wait already"):
        client.chat.completions.create(model="fake", messages=MESSAGES, stream=stream)


def test_a_batch_that_does_not_fit_as_a_whole(http: httpx.Client, router: FakeRouter) -> None:
    router.waiting = Limits().max_queue - 2
    error_of(http.post("/v1/completions", json={"prompt": ["a", "b", "c"]}), 429)
    assert http.post("/v1/completions", json={"prompt": ["a", "b"]}).status_code == 200


def test_a_full_queue_is_told_before_the_body_is_read(http: httpx.Client, router: FakeRouter) -> None:
    router.waiting = Limits().max_queue
    error_of(http.post("/v1/completions", content=b"not even JSON"), 429)


def test_the_router_may_refuse_by_itself(http: httpx.Client, router: FakeRouter) -> None:
    router.refusal = OverloadedError("too late", retry_after=0.2)
    response = http.post("/v1/completions", json={"prompt": "a"})
    assert error_of(response, 429)["message"] == "too late"
    assert response.headers["retry-after"] == "1"


def test_what_any_prompt_would_be_refused_for_is_told_before_it_is_looked_at(
    http: httpx.Client, router: FakeRouter
) -> None:
    """Neither template nor tokeniser are asked, which would find fault with these."""
    router.full = OverloadedError("too late", retry_after=3.4)
    for route, body in (
        ("/v1/completions", {"prompt": ["a", ""]}),
        ("/v1/chat/completions", {"messages": [{"role": "user"}]}),
    ):
        response = http.post(route, json=body)
        assert error_of(response, 429)["message"] == "too late"
        assert response.headers["retry-after"] == "4"
        assert error_of(http.post(route, json={**body, "priority": -1}), 400)
        assert error_of(http.post(route, json={**body, "n": 0}), 400)["param"] == "n"
        assert error_of(http.post(route, json={**body, "priority": 10**400}), 400)


def test_requests_of_one_client_at_a_time() -> None:
    service = FakeService()
    service.router.script = lambda generation: [30.0]
    allowed = access(host="127.0.0.1", api_keys=["one", "other"])
    with serving(service, LIMITS, allowed) as url, httpx.Client(base_url=url, timeout=10) as http:

        def ask(key: str) -> httpx.Response:
            headers = {"Authorization": f"Bearer {key}"}
            return http.post("/v1/completions", json={"prompt": "a", "timeout": 0.3}, headers=headers)

        threads = [threading.Thread(target=ask, args=["one"]) for _ in range(2)]
        for thread in threads:
            thread.start()
        wait_until(lambda: len(service.router.tickets) == 2)
        assert "2 requests under way" in error_of(ask("one"), 429)["message"]
        assert ask("other").status_code == 200
        for thread in threads:
            thread.join()
        assert ask("one").status_code == 200


def test_readiness(http: httpx.Client, router: FakeRouter) -> None:
    router.faults = ["engine decode-0 is dead: exit code 1"]
    assert http.get("/ready").json() == {"status": "degraded", "problems": router.faults}
    router.ready = False
    response = http.get("/ready")
    assert response.status_code == 503
    assert response.json() == {"status": "not ready", "problems": router.faults}


def test_responses_are_counted(http: httpx.Client) -> None:
    def count(status: int) -> float:
        lines = http.get("/metrics").text.splitlines()
        name = f'twinfer_http_responses_total{{status="{status}"}} '
        return sum(float(line.removeprefix(name)) for line in lines if line.startswith(name))

    before = count(404)
    http.get("/nowhere")
    assert count(404) == before + 1


def test_logs_hold_no_prompts_and_no_keys(
    capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    secret, key = "my darkest secret", "sk-hidden"
    service = FakeService()
    allowed = access(host="127.0.0.1", api_keys=[key])
    failures = [ValueError(secret), KeyError(secret), OverloadedError(secret)]
    with serving(service, access=allowed) as url:
        headers = {"Authorization": f"Bearer {key}"}
        with httpx.Client(base_url=url, headers=headers) as http:
            for failure in failures:
                for script in ([failure], [[97], 0.01, failure]):
                    service.router.script = lambda generation, script=script: script
                    for stream in (False, True):
                        body = {"prompt": secret, "stream": stream, "n": 2}
                        http.post("/v1/completions", json=body)
                service.router.refusal = failure
                http.post("/v1/completions", json={"prompt": secret})
                service.router.refusal = None
            http.post("/v1/completions", json={"prompt": secret, secret: secret, "temperature": secret})
            http.post(f"/{secret}", content=secret.encode(), headers={"Host": "evil", "Authorization": key})
    time.sleep(0.05)
    logged = "".join([*capfd.readouterr(), caplog.text])
    assert "a request failed by a bug: ValueError" in logged
    assert "http_fake.py" in logged
    assert secret not in logged
    assert key not in logged


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_queue": 0}, "max_queue must be at least 1, not 0"),
        ({"max_answer_tokens": 0}, "max_answer_tokens must be at least 1, not 0"),
        ({"max_choices": 129}, "max_choices must be at most 128, not 129"),
        ({"read_timeout": 0.0}, "read_timeout must be over 0 and at most 1000000 seconds, not 0.0"),
        (
            {"request_timeout": float("nan")},
            "request_timeout must be over 0 and at most 1000000 seconds, not nan",
        ),
        ({"shutdown_timeout": -1.0}, "shutdown_timeout must be from 0 to 1000000 seconds, not -1.0"),
    ],
    ids=str,
)
def test_limits_out_of_range(options: dict[str, float], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Limits(**options).validated()  # type: ignore[arg-type]
    assert str(caught.value) == message
