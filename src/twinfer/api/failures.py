"""Errors as OpenAI's clients expect them: a status, and an object that says what and where."""

from __future__ import annotations

import asyncio
import logging
import math
import traceback

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from twinfer.errors import NotFoundError, OverloadedError, RequestError, TwinferError, UnavailableError

INVALID = "invalid_request_error"
MOST_CHARACTERS = 500
STOPPING = UnavailableError("the server is stopping")
KINDS = {429: "rate_limit_error", 500: "server_error", 503: "server_error"}
CODES = {
    400: None,
    401: "invalid_api_key",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    408: "request_timeout",
    409: "conflict",
    413: "body_too_large",
    421: "unknown_host",
    429: "overloaded",
    431: "head_too_large",
    500: "internal_error",
    503: "unavailable",
}


class Failure(msgspec.Struct):
    message: str
    type: str
    param: str | None = None
    code: str | None = None


def failure(status: int, message: str) -> Failure:
    """The error object that goes with a status, where nothing more is known."""
    return Failure(message, KINDS.get(status, INVALID), code=CODES.get(status))


def describe(error: Exception) -> tuple[int, Failure]:
    """The HTTP status and the error object for an exception; nobody is told the details of a bug."""
    if isinstance(error, RequestError):
        status = 404 if isinstance(error, NotFoundError) else 400
        return status, Failure(str(error), KINDS.get(status, INVALID), error.param, error.code)
    if isinstance(error, HTTPException):
        return error.status_code, failure(error.status_code, error.detail)
    if isinstance(error, (OverloadedError, UnavailableError)):
        status = 429 if isinstance(error, OverloadedError) else 503
        return status, failure(status, str(error))
    if isinstance(error, TwinferError):
        return 500, Failure(str(error), "server_error", code="engine_failed")
    return 500, failure(500, "internal server error")


def encode(told: Failure) -> bytes:
    """The body of an error response. What it quotes of the request is kept to one line of a fair length."""
    lines = {name: _line(text) for name in ("message", "param") if (text := getattr(told, name)) is not None}
    return msgspec.json.encode({"error": msgspec.structs.replace(told, **lines)})


def _line(text: str) -> str:
    line = "".join(letter if letter.isprintable() else "�" for letter in text[:MOST_CHARACTERS])
    return line if len(text) <= MOST_CHARACTERS else f"{line} ..."


async def respond(request: Request, error: Exception) -> Response:
    """Starlette's handler for errors raised on purpose."""
    status, told = describe(error)
    headers = dict(getattr(error, "headers", None) or {})
    if status == 405:
        told.message = f"{request.method} is not allowed here; use {headers.get('Allow', 'another method')}"
    elif status == 404 and isinstance(error, HTTPException):
        told.message = f"there is nothing at {request.url.path}"
    elif isinstance(error, OverloadedError):
        headers["Retry-After"] = str(math.ceil(max(1, error.retry_after)))
    elif isinstance(error, UnavailableError):
        headers |= {"Retry-After": "1", "Connection": "close"}
    return Response(encode(told), status, headers, "application/json")


class Guard:
    """Answers errors that nobody meant to raise, and logs them. The connection stays usable."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = False

        async def watched(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self.app(scope, receive, watched)
        except ClientDisconnect:
            return
        except asyncio.CancelledError:
            # Only a server that stops cancels requests.
            if not started:
                await (await respond(Request(scope), STOPPING))(scope, receive, send)
        except Exception as error:
            log_bug(error)
            if not started:
                await (await respond(Request(scope), error))(scope, receive, send)


def log_bug(error: Exception) -> None:
    """Log an error that nobody meant to raise: what it is and where, but not its text.

    The text may quote what a client sent, and that is not ours to write down.
    """
    if not isinstance(error, (TwinferError, HTTPException)):
        places = "".join(traceback.format_list(traceback.extract_tb(error.__traceback__)))
        logging.getLogger(__name__).error("a request failed by a bug: %s\n%s", type(error).__name__, places)
