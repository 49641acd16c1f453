"""What answers look like in JSON: whole, and as the chunks of a stream."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType


class PromptTokens(msgspec.Struct):
    cached_tokens: int


class Usage(msgspec.Struct):
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptTokens


class Envelope(msgspec.Struct):
    """What encloses choices. `usage` is left out where it is UNSET."""

    id: str
    object: str
    created: int
    model: str
    choices: list[Any]
    usage: Usage | UnsetType | None = UNSET


class CompletionChoice(msgspec.Struct):
    index: int
    text: str
    finish_reason: str | None
    logprobs: None = None


class ChatMessage(msgspec.Struct):
    role: str
    content: str


class ChatChoice(msgspec.Struct):
    index: int
    message: ChatMessage
    finish_reason: str | None
    logprobs: None = None


class Delta(msgspec.Struct):
    role: str | UnsetType = UNSET
    content: str | UnsetType = UNSET


class DeltaChoice(msgspec.Struct):
    index: int
    delta: Delta
    finish_reason: str | None = None
    logprobs: None = None


class CompletionShape(msgspec.Struct, frozen=True):
    """`heads[i]` is the text that answer i begins with: its prompt where an echo is asked for."""

    heads: list[str]
    prefix = "cmpl"
    whole_object = "text_completion"
    chunk_object = "text_completion"

    def whole(self, index: int, text: str, finish: str) -> Any:
        return CompletionChoice(index, self.heads[index] + text, finish)

    def opening(self, index: int) -> Any:
        """The choice that a stream's answer begins with, or None."""
        return CompletionChoice(index, self.heads[index], None) if self.heads[index] else None

    def chunk(self, index: int, text: str) -> Any:
        return CompletionChoice(index, text, None)

    def closing(self, index: int, finish: str) -> Any:
        return CompletionChoice(index, "", finish)


class ChatShape(msgspec.Struct, frozen=True):
    prefix = "chatcmpl"
    whole_object = "chat.completion"
    chunk_object = "chat.completion.chunk"

    def whole(self, index: int, text: str, finish: str) -> Any:
        return ChatChoice(index, ChatMessage("assistant", text), finish)

    def opening(self, index: int) -> Any:
        return DeltaChoice(index, Delta("assistant", ""))

    def chunk(self, index: int, text: str) -> Any:
        return DeltaChoice(index, Delta(content=text))

    def closing(self, index: int, finish: str) -> Any:
        return DeltaChoice(index, Delta(), finish)


Shape = CompletionShape | ChatShape
