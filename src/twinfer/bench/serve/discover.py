"""Finding out what a server is: its model, its context, and which fields it takes."""

from __future__ import annotations

import msgspec

from twinfer.bench.serve.answer import Answer
from twinfer.bench.serve.client import Asking, Place, ask, call, encode
from twinfer.bench.serve.failure import ServerError
from twinfer.bench.serve.wire import Dialect
from twinfer.bench.serve.workload import Job

CANARY = Job(0, 0.0, 16, 2)
"""A request that takes an idle server no time worth mentioning."""

CANARY_WITHIN = 60.0
"""Seconds after which a canary has failed; even a busy server that is alive has answered by then."""

CANARY_SALT = 1 << 63
"""Keeps a canary's content apart from any load's."""


class Card(msgspec.Struct):
    id: str
    max_model_len: int | None = None


class Cards(msgspec.Struct):
    data: list[Card] = []


class Tokenized(msgspec.Struct):
    max_model_len: int | None = None


class Found(msgspec.Struct, frozen=True):
    """How to ask a server, and the tokens that prompt and answer may have together, where it tells."""

    dialect: Dialect
    max_len: int | None


async def find_model(place: Place, model: str | None, api_key: str | None) -> tuple[str, int | None]:
    """The name to ask for, `model` or else the first that the server lists, and its context if told.

    Raises:
        ServerError: no model was named, and the server lists none.
    """
    status, body = await call(place, "GET", "/v1/models", api_key=api_key)
    try:
        cards = msgspec.json.decode(body, type=Cards).data if status == 200 else []
    except msgspec.MsgspecError:
        cards = []
    if model is None and not cards:
        raise ServerError(f"{place.address.url}/v1/models lists no model; name one with --model")
    name = model or cards[0].id
    told = [card.max_model_len for card in cards if card.id == name and card.max_model_len]
    return name, told[0] if told else await _context(place, name, api_key)


async def _context(place: Place, model: str, api_key: str | None) -> int | None:
    asked = msgspec.json.encode({"model": model, "prompt": "x"})
    status, body = await call(place, "POST", "/tokenize", asked, api_key)
    try:
        return msgspec.json.decode(body, type=Tokenized).max_model_len if status == 200 else None
    except msgspec.MsgspecError:
        return None


def dialects(wanted: Dialect, ignore_eos: bool | None) -> list[Dialect]:
    """What to try, best first; `ignore_eos` None is: where the server takes it."""
    ways = (True, False) if ignore_eos is None else (ignore_eos,)
    return [
        msgspec.structs.replace(wanted, ignore_eos=ignoring, usage=usage)
        for usage in (True, False)
        for ignoring in ways
    ]


async def find_dialect(asking: Asking, ignore_eos: bool | None) -> Dialect:
    """The first of `dialects` in which the server answers a canary.

    Raises:
        ServerError: it answers none.
    """
    first: Answer | None = None
    for dialect in dialects(asking.dialect, ignore_eos):
        answer = await canary(msgspec.structs.replace(asking, dialect=dialect))
        if answer.completed:
            return dialect
        first = first or answer
        if answer.failure not in ("HTTP 400", "HTTP 422"):
            break
    assert first is not None
    raise unanswered(asking.place, first)


def unanswered(place: Place, canary: Answer) -> ServerError:
    """The error that a canary without an answer is."""
    detail = f": {canary.message}" if canary.message else ""
    return ServerError(f"{place.address.url} does not answer ({canary.failure}{detail})")


async def canary(asking: Asking) -> Answer:
    """One answer to a tiny request, the same each time."""
    within = min(asking.timeout, CANARY_WITHIN)
    salted = msgspec.structs.replace(asking, salt=asking.salt ^ CANARY_SALT, timeout=within)
    return await ask(salted, CANARY, encode(salted, CANARY), 0.0, lambda answer: None)
