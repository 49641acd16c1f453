"""Every error Twinfer raises on purpose.

TwinferError
 ├── ConfigError          an option that is unknown, out of range or cannot be honoured
 ├── ModelError           a model that is missing, damaged or not supported
 ├── RequestError         a request that can never succeed (HTTP 400)
 │    └── NotFoundError   it names a model or a route that does not exist (HTTP 404)
 ├── OverloadedError      a request that may succeed later (HTTP 503)
 └── EngineError          an engine failed to start, died or reported a failure (HTTP 500)

Messages are one line, in plain English, and name what is wrong and what would be right.
"""

from __future__ import annotations


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
    """The server cannot take the request now; the same request may succeed after `retry_after` seconds."""

    def __init__(self, message: str, *, retry_after: float = 1.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class EngineError(TwinferError):
    """An engine failed to start, died, or reported a failure."""
