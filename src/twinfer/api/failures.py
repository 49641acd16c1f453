"""Errors as OpenAI's clients expect them: a status, and an object that says what and where."""

from __future__ import annotations

import asyncio
import logging

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from twinfer.errors import NotFoundError, OverloadedError, RequestError, TwinferError

INVALID = "invalid_request_error"
STOPPING = OverloadedError("the server is stopping")


class Failure(msgspec.Struct):
    message: str
    type: str
    param: str | None = None
    code: str | None = None


def describe(error: Exception) -> tuple[int, Failure]:
    """The HTTP status and the error object for an exception; nobody is told the details of a bug."""
    if isinstance(error, RequestError):
        status = 404 if isinstance(error, NotFoundError) else 400
        return status, Failure(str(error), INVALID, error.param, error.code)
    if isinstance(error, HTTPException):
        return error.status_code, Failure(error.detail, INVALID, code=_code(error.status_code))
    if isinstance(error, OverloadedError):
        return 503, Failure(str(error), "server_error", code="overloaded")
    if isinstance(error, TwinferError):
        return 500, Failure(str(error), "server_error", code="engine_failed")
    return 500, Failure("internal server error", "server_error", code="internal_error")


def encode(failure: Failure) -> bytes:
    return msgspec.json.encode({"error": failure})


async def respond(request: Request, error: Exception) -> Response:
    """Starlette's handler for errors raised on purpose."""
    status, failure = describe(error)
    headers = dict(getattr(error, "headers", None) or {})
    if status == 405:
        failure.message = (
            f"{request.method} is not allowed here; use {headers.get('Allow', 'another method')}"
        )
    elif status == 404 and isinstance(error, HTTPException):
        failure.message = f"there is nothing at {request.url.path}"
    elif status == 503:
        headers["Retry-After"] = "1"
    return Response(encode(failure), status, headers, "application/json")


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
            if started:
                raise
            log_bug(error)
            await (await respond(Request(scope), error))(scope, receive, send)


def log_bug(error: Exception) -> None:
    """Log an error that nobody meant to raise, with its traceback."""
    if not isinstance(error, TwinferError):
        logging.getLogger(__name__).error("a request failed by a bug", exc_info=error)


def _code(status: int) -> str | None:
    return {404: "not_found", 405: "method_not_allowed", 413: "body_too_large"}.get(status)
