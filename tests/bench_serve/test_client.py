"""The client against a real port, with servers that behave and that do not."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from twinfer.bench.serve import address
from twinfer.bench.serve.answer import Answer
from twinfer.bench.serve.client import Asking, ask, encode, reach
from twinfer.bench.serve.discover import find_dialect, find_model
from twinfer.bench.serve.failure import ServerError
from twinfer.bench.serve.wire import Dialect
from twinfer.bench.serve.workload import Job
from twinfer.errors import ConfigError

from . import fake
from .fake import END, EVENTS, Step, answer, chunk, event, serving, token, usage

JOB = Job(0, 0.0, 8, 4)


async def asking_of(url: str, **options: object) -> Asking:
    dialect = options.pop("dialect", Dialect("fake"))
    return Asking(await reach(address.parse(url)), dialect, seed=0, **options)


def answer_to(steps: Sequence[Step], **options: object) -> Answer:
    """The answer that the client has from a server that sends these steps."""

    async def main(url: str) -> Answer:
        asking = await asking_of(url, **options)
        return await ask(asking, JOB, encode(asking, JOB), 0.0, lambda answer: None)

    with serving(lambda path, body: steps) as server:
        return asyncio.run(main(server.url))


def test_a_good_answer():
    found = answer_to(answer(4, 0.02, cached=2))
    assert found.completed
    assert (found.tokens, found.prompt_tokens, found.cached_tokens) == (4, 3, 2)
    assert len(found.stamps) == 4
    assert found.sent < found.first <= found.last <= found.ended
    assert min(found.itl) > 0.01
    assert 0.01 < found.tpot < found.e2e


def test_events_split_across_packets():
    data = chunk(token("a") + token("b")) + chunk(usage(2) + event("[DONE]"))
    found = answer_to([EVENTS, data[:17], 0.01, data[17:50], 0.01, data[50:], END])
    assert found.completed
    assert (found.tokens, len(found.stamps)) == (2, 2)


def test_tokens_are_events_where_no_usage_comes():
    found = answer_to([EVENTS, chunk(token("a")), chunk(token("b", "stop")), END])
    assert found.completed
    assert found.tokens == 2


def test_a_stream_that_ends_with_the_connection():
    head = b"HTTP/1.0 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
    assert answer_to([head, token("a"), event("[DONE]")]).completed
    assert answer_to([head, token("a")]).failure == "disconnected"


@pytest.mark.parametrize(
    ("steps", "failure", "message"),
    [
        (fake.error(429, "too many"), "refused", "too many"),
        (fake.error(503, "over\nloaded"), "HTTP 503", "over loaded"),
        ([b"HTTP/1.1 500 X\r\nContent-Length: 4\r\n\r\nbang"], "HTTP 500", "bang"),
        ([None], "disconnected", ""),
        ([EVENTS, chunk(token("a")), None], "disconnected", ""),
        ([EVENTS, chunk(token("a")), END], "disconnected", ""),
        ([EVENTS, chunk(event({"error": {"message": "died"}})), END], "error in the stream", "died"),
        ([EVENTS, chunk(b"data: nonsense\n\n"), END], "malformed stream", "nonsense"),
        ([EVENTS, chunk(usage(0) + event("[DONE]")), END], "empty answer", ""),
        ([b"SSH-2.0-nope\r\n\r\n"], "malformed response", ""),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_failures_by_kind(steps, failure, message):
    found = answer_to(steps)
    assert found.failure == failure
    assert message in found.message
    assert not found.completed


def test_timeout():
    found = answer_to([EVENTS, chunk(token("a")), 5.0], timeout=0.1)
    assert found.failure == "timeout"
    assert len(found.stamps) == 1


def test_a_server_that_went_away():
    async def main() -> Answer:
        with serving() as server:
            asking = await asking_of(server.url)
        return await ask(asking, JOB, encode(asking, JOB), 0.0, lambda answer: None)

    assert asyncio.run(main()).failure == "no connection"


def test_giving_up_hangs_up():
    async def main(url: str) -> Answer:
        asking = await asking_of(url)
        begun: list[Answer] = []
        task = asyncio.create_task(ask(asking, JOB, encode(asking, JOB), 0.0, begun.append))
        for _ in range(500):
            await asyncio.sleep(0.01)
            if begun and begun[0].stamps:
                break
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return begun[0]

    with serving(lambda path, body: answer(1000, 0.01)) as server:
        found = asyncio.run(main(server.url))
        assert found.failure == "stopped"
        for _ in range(200):
            if server.hung_up:
                return
            asyncio.run(asyncio.sleep(0.01))
    raise AssertionError("the server was not hung up on")


def test_what_is_sent():
    async def main(url: str) -> None:
        for chat in (False, True):
            dialect = Dialect("fake", chat, temperature=0.5)
            asking = await asking_of(f"{url}/below/v1/", dialect=dialect, api_key="secret")
            assert b"\r\nAuthorization: Bearer secret\r\n" in encode(asking, JOB)
            await ask(asking, JOB, encode(asking, JOB), 0.0, lambda answer: None)

    with serving() as server:
        asyncio.run(main(server.url))
    (path, body), (chat_path, chat_body) = server.asked
    assert path == "/below/v1/completions"
    assert chat_path == "/below/v1/chat/completions"
    common = {"model": "fake", "max_tokens": 4, "temperature": 0.5, "stream": True, "ignore_eos": True}
    common["stream_options"] = {"include_usage": True}
    assert len(body.pop("prompt")) == 8
    (message,) = chat_body.pop("messages")
    assert len(message["content"].split()) == 8
    assert body == chat_body == common


def test_the_dialect_is_what_the_server_takes():
    def picky(path: str, body: dict[str, object]) -> Sequence[Step]:
        for field in ("ignore_eos", "stream_options"):
            if field in body:
                return fake.error(400, f"'{field}' is not supported")
        return answer(2)

    async def main(url: str, ignore_eos: bool | None) -> Dialect:
        return await find_dialect(await asking_of(url), ignore_eos)

    with serving(picky) as server:
        assert asyncio.run(main(server.url, None)) == Dialect("fake", ignore_eos=False, usage=False)
        with pytest.raises(ServerError, match=r"HTTP 400: 'ignore_eos' is not supported"):
            asyncio.run(main(server.url, True))
    with serving() as server:
        assert asyncio.run(main(server.url, None)) == Dialect("fake")
        assert asyncio.run(main(server.url, False)) == Dialect("fake", ignore_eos=False)
        assert len(server.asked) == 2


def test_model_and_context_are_asked_for():
    async def main(url: str, model: str | None) -> tuple[str, int | None]:
        return await find_model(await reach(address.parse(url)), model, None)

    with serving(lambda path, body: fake.models(512)) as server:
        assert asyncio.run(main(server.url, None)) == ("fake", 512)
    by_path = {"/v1/models": fake.models(), "/tokenize": fake.whole({"tokens": [1], "max_model_len": 99})}
    with serving(lambda path, body: by_path[path]) as server:
        assert asyncio.run(main(server.url, None)) == ("fake", 99)
        assert asyncio.run(main(server.url, "other")) == ("other", 99)
    with serving(lambda path, body: fake.error(404, "nothing")) as server:
        assert asyncio.run(main(server.url, "named")) == ("named", None)
        with pytest.raises(ServerError, match="name one with --model"):
            asyncio.run(main(server.url, None))


@pytest.mark.parametrize(
    ("url", "there"),
    [
        ("localhost:8000", "http://localhost:8000"),
        ("http://[::1]:9/v1", "http://[::1]:9"),
        ("https://example.org/api/v1/", "https://example.org:443/api"),
        ("http://host", "http://host:80"),
    ],
)
def test_addresses(url, there):
    assert address.parse(url).url == there


@pytest.mark.parametrize("url", ["", "ftp://x", "http://", "http://x:99999", "http://x:y", "http://[::1"])
def test_what_is_no_address(url):
    with pytest.raises(ConfigError, match="is not a server's URL"):
        address.parse(url)
