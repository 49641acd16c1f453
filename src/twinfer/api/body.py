"""From the bytes of a request to a typed struct, or to an error that names the field at fault."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TypeVar

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request

from twinfer.api.limits import Limits
from twinfer.errors import OverloadedError, RequestError

T = TypeVar("T")


class Held:
    """Bytes of all bodies that are being read; `most` at a time."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._size = 0

    @contextmanager
    def body(self) -> Generator[Callable[[int], None]]:
        """For the time of reading one body, what is to be called with the size of each piece."""
        own = 0

        def more(size: int) -> None:
            nonlocal own
            own += size
            self._size += size
            if self._size > self._most:
                raise OverloadedError("too many large requests are coming in at once")

        try:
            yield more
        finally:
            self._size -= own


async def read(request: Request, into: type[T]) -> T:
    """The body as a struct of type `into`.

    Raises:
        RequestError: not JSON, or not of that type.
        HTTPException: 413, it is larger than the server's limit.
        OverloadedError: the bodies being read are too large together.
    """
    limits: Limits = request.app.state.limits
    held: Held = request.app.state.held
    with held.body() as more:
        return parse(await _collect(request, limits.max_body_size, more), into)


def parse(body: bytes, into: type[T]) -> T:
    """As `read`, of bytes."""
    try:
        return msgspec.json.decode(body, type=into)
    except msgspec.ValidationError as error:
        raise _invalid(str(error)) from None
    except (msgspec.DecodeError, UnicodeError) as error:
        raise RequestError(f"the body is not valid JSON: {error}") from None
    except RecursionError:
        raise RequestError("the body is not valid JSON: it is nested too deeply") from None


async def _collect(request: Request, limit: int, more: Callable[[int], None]) -> bytes:
    too_large = HTTPException(413, f"the body is larger than {limit} bytes", {"Connection": "close"})
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and int(announced) > limit:
        raise too_large
    chunks: list[bytes] = []
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        more(len(chunk))
        if size > limit:
            raise too_large
        chunks.append(chunk)
    return b"".join(chunks)


def _invalid(text: str) -> RequestError:
    """msgspec's "Expected `int | null`, got `str` - at `$.n`" as an error about the field `n`."""
    what, _, where = text.partition(" - at ")
    path = where.strip("`").removeprefix("$").removeprefix(".")
    unknown = re.fullmatch(r"Object contains unknown field `(.*)`", what, re.DOTALL)
    missing = re.fullmatch(r"Object missing required field `(.*)`", what, re.DOTALL)
    if found := unknown or missing:
        field = f"{path}.{found[1]}" if path else found[1]
        reason = "unknown field" if unknown else "missing field"
        return RequestError(f"{reason} '{field}'", param=field, code="unknown_field" if unknown else None)
    reason = (what[:1].lower() + what[1:]).replace(" | null", "").replace("`", "").replace(" | ", " or ")
    return RequestError(f"{path or 'the body'}: {reason}", param=path or None)
