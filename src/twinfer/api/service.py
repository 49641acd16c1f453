"""What the server needs of the rest: a router to submit to, and the model's text side."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any, Protocol

from prometheus_client import CollectorRegistry

from twinfer.messages import Role
from twinfer.router.generation import Generation


class Ticket(Protocol):
    """One request under way; iterating gives the tokens that came since the last time."""

    @property
    def finish_reason(self) -> str | None: ...
    @property
    def cached_tokens(self) -> int: ...

    def __aiter__(self) -> AsyncIterator[list[int]]: ...

    def cancel(self) -> None: ...


class Metrics(Protocol):
    @property
    def registry(self) -> CollectorRegistry: ...


class Router(Protocol):
    """Raises RequestError and OverloadedError from `submit`, EngineError from the ticket's iteration.

    `check_room` raises OverloadedError where `submit` would do so whatever the prompt.

    `drain` and `set_role` raise NotFoundError for an engine that is not ready. `waiting` requests are in
    the queue, and it takes about `retry_after` seconds to work them off.
    """

    @property
    def ready(self) -> bool: ...
    @property
    def max_model_len(self) -> int: ...
    @property
    def waiting(self) -> int: ...
    @property
    def retry_after(self) -> float: ...
    @property
    def metrics(self) -> Metrics: ...

    def check_room(self, priority: int) -> None: ...

    def submit(self, generation: Generation) -> Ticket: ...

    def engines(self) -> Sequence[dict[str, Any]]: ...

    def problems(self) -> Sequence[str]: ...

    def drain(self, engine: str, draining: bool) -> None: ...

    def set_role(self, engine: str, role: Role) -> None: ...


class Tokenizer(Protocol):
    @property
    def vocab_size(self) -> int: ...
    @property
    def bos(self) -> int | None: ...
    @property
    def eos(self) -> frozenset[int]: ...

    def encode(self, text: str, special: bool = True) -> list[int]: ...

    def decode(self, ids: Iterable[int]) -> str: ...

    def token_bytes(self, token: int) -> bytes: ...


class Template(Protocol):
    def render(self, messages: list[dict[str, Any]], add_generation_prompt: bool = True) -> str: ...


class Options(Protocol):
    @property
    def model(self) -> str | None: ...
    @property
    def seed(self) -> int | None: ...


class Service(Protocol):
    """A model being served."""

    @property
    def router(self) -> Router: ...
    @property
    def tokenizer(self) -> Tokenizer: ...
    @property
    def template(self) -> Template | None: ...
    @property
    def model_id(self) -> str: ...
    @property
    def config(self) -> Options: ...
