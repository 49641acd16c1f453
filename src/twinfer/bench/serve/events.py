"""Reading a stream of server-sent events into an `Answer`, with as little work as possible."""

from __future__ import annotations

from typing import Any

import msgspec

from twinfer.bench.serve.answer import Answer

DONE = b"[DONE]"


class Delta(msgspec.Struct):
    role: str | None = None
    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None


class Choice(msgspec.Struct):
    text: str | None = None
    delta: Delta | None = None
    finish_reason: str | None = None


class PromptTokens(msgspec.Struct):
    cached_tokens: int | None = None


class Usage(msgspec.Struct):
    prompt_tokens: int = 0
    completion_tokens: int = 0
    prompt_tokens_details: PromptTokens | None = None


class Event(msgspec.Struct):
    """The part of a chunk that matters here."""

    choices: list[Choice] = []
    usage: Usage | None = None
    error: Any = None


DECODER = msgspec.json.Decoder(Event)


class Reader:
    """Takes the bytes of a stream as they come, cut anywhere, and fills in `answer`.

    finished    the server said that the answer is whole
    failure     what is wrong with the stream; empty if nothing is
    """

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.finished = False
        self.failure = ""
        self._rest = b""

    def feed(self, data: bytes, now: float) -> None:
        """Take the next bytes, which arrived at `now`."""
        lines = (self._rest + data if self._rest else data).split(b"\n")
        self._rest = lines.pop()
        for line in lines:
            if line.startswith(b"data:"):
                self._take(line[5:], now)

    def _take(self, data: bytes, now: float) -> None:
        if data.strip() == DONE:
            self.finished = True
            return
        try:
            event = DECODER.decode(data)
        except msgspec.MsgspecError:
            self._fail("malformed stream", data)
            return
        if event.error is not None:
            self._fail("error in the stream", data)
        for choice in event.choices:
            self.answer.last = now
            if choice.finish_reason:
                self.finished = True
            if brings_token(choice):
                self.answer.stamps.append(now)
        if event.usage is not None:
            _count(self.answer, event.usage)

    def _fail(self, failure: str, data: bytes) -> None:
        self.failure = self.failure or failure
        self.answer.message = self.answer.message or error_message(data)


def brings_token(choice: Choice) -> bool:
    """Whether a choice has text; or neither text nor another purpose, as a token without text has."""
    if choice.delta is None:
        return bool(choice.text) or choice.finish_reason is None
    delta = choice.delta
    if delta.content or delta.reasoning_content or delta.reasoning:
        return True
    return choice.finish_reason is None and delta.role is None


def _count(answer: Answer, usage: Usage) -> None:
    answer.tokens = usage.completion_tokens
    answer.prompt_tokens = usage.prompt_tokens
    if usage.prompt_tokens_details is not None:
        answer.cached_tokens = usage.prompt_tokens_details.cached_tokens or 0


def error_message(body: bytes) -> str:
    """What an error's body says, on one line: OpenAI's message, or the body itself."""
    try:
        message = str(msgspec.json.decode(body)["error"]["message"])
    except (msgspec.MsgspecError, KeyError, TypeError):
        message = body.decode(errors="replace")
    return " ".join(message.split())[:300]
