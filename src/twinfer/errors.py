"""Every error Twinfer raises on purpose.

TwinferError
 ├── ConfigError          an option that is unknown, out of range or cannot be honoured
 ├── ModelError           a model that is missing, damaged or not supported
 ├── RequestError         a request that can never succeed (HTTP 400)
 │    └── NotFoundError   it names a model or a route that does not exist (HTTP 404)
 ├── OverloadedError      there is too much to do; the same request may succeed later (HTTP 429)
 ├── UnavailableError     the server is starting or stopping (HTTP 503)
 ├── EngineError          an engine failed to start, died or reported a failure (HTTP 500)
 └── BadMessageError      a message between processes that is malformed or cannot be true

Messages are one line, in plain English, and name what is wrong and what would be right.
"""

from __future__ import annotations

LONGEST_LINE = 500


def one_line(text: object) -> str:
    """What was said by others as one printable line of bounded length, to be part of a message."""
    cut = str(text)[: 2 * LONGEST_LINE]
    printable = "".join(letter if letter.isprintable() else " " for letter in cut)
    return " ".join(printable.split())[:LONGEST_LINE]


class TwinferError(Exception):
    """Base of all errors raised on purpose."""


class ConfigError(TwinferError):
    """An option is unknown, out of range, or cannot be honoured on this machine."""


class ModelError(TwinferError):
    """A model cannot be found, is damaged, or is of a kind that is not supported."""


class RequestError(TwinferError):
    """A request that can never succeed.

    `param` names the field at fault and `code` the kind of fault, as in OpenAI's error objects.
    """

    def __init__(self, message: str, *, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.param = param
        self.code = code


class NotFoundError(RequestError):
    """The request names a model or a route that does not exist."""


class OverloadedError(TwinferError):
    """There is too much to do already; the same request may succeed after `retry_after` seconds."""

    def __init__(self, message: str, *, retry_after: float = 1.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class UnavailableError(TwinferError):
    """The server takes no requests now, since it is starting or stopping."""


class EngineError(TwinferError):
    """An engine failed to start, died, or reported a failure."""


class BadMessageError(TwinferError):
    """A message between router and engine is malformed or cannot be true; its sender is not to be trusted."""
