"""The bytes of requests."""

from __future__ import annotations

from typing import Any

import msgspec

from twinfer.bench.serve import prompts
from twinfer.bench.serve.address import Address
from twinfer.bench.serve.prompts import Hashes


class Dialect(msgspec.Struct, frozen=True):
    """How a server is asked: which endpoint, and which fields beyond OpenAI's oldest it takes."""

    model: str
    chat: bool = False
    ignore_eos: bool = True
    usage: bool = True
    temperature: float = 0.0


def http(address: Address, method: str, path: str, body: bytes = b"", api_key: str | None = None) -> bytes:
    """A whole HTTP/1.1 request, after which the server closes the connection."""
    lines = [
        f"{method} {address.prefix}{path} HTTP/1.1",
        f"Host: {address.authority}",
        "Connection: close",
        "Accept: */*",
    ]
    if api_key:
        lines.append(f"Authorization: Bearer {api_key}")
    if body:
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def path(dialect: Dialect) -> str:
    return "/v1/chat/completions" if dialect.chat else "/v1/completions"


def body(dialect: Dialect, prompt: Hashes, max_tokens: int) -> bytes:
    """The JSON of a streaming request whose prompt is made of these numbers."""
    fields: dict[str, Any] = {
        "model": dialect.model,
        "max_tokens": max_tokens,
        "temperature": dialect.temperature,
        "stream": True,
    }
    if dialect.chat:
        fields["messages"] = [{"role": "user", "content": prompts.as_text(prompt)}]
    else:
        fields["prompt"] = prompts.as_tokens(prompt)
    if dialect.usage:
        fields["stream_options"] = {"include_usage": True}
    if dialect.ignore_eos:
        fields["ignore_eos"] = True
    return msgspec.json.encode(fields)
