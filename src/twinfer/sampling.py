"""How an answer is generated, as a user says it; the same for `LLM` and for HTTP."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

import msgspec

from twinfer.errors import RequestError
from twinfer.messages import Sampling

MOST_STOPS = 16
MOST_STOP_CHARACTERS = 1024
MOST_STOP_TOKENS = 256
MOST_CHOICES = 128
SEEDS = 1 << 64
RANGES: dict[str, tuple[float, float | None]] = {
    "n": (1, MOST_CHOICES),
    "max_tokens": (1, None),
    "temperature": (0, 2),
    "top_p": (0, 1),
    "top_k": (-1, (1 << 31) - 1),
    "min_p": (0, 1),
    "seed": (-(1 << 63), SEEDS - 1),
}
"""The least and the most of each number; `top_p` must be over 0 besides."""


class SamplingParams(msgspec.Struct, frozen=True, kw_only=True):
    """How to pick tokens, and when to end.

    n               answers to each prompt, with seeds counting up
    max_tokens      of the answer, or None for as many as the context holds
    temperature     0 (always the likeliest token) to 2
    top_k, top_p, min_p   keep the k likeliest (0: all), the likeliest with that share of probability,
                    those with at least that share of the likeliest's probability; in this order
    seed            for the same answer each time, or None
    stop            strings that end the answer and are not part of it
    stop_token_ids  tokens that end it, besides the model's own end tokens
    ignore_eos      go on after the model's own end tokens

    Raises:
        RequestError: a value is of the wrong type or out of range.
    """

    n: int = 1
    max_tokens: int | None = 16
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    seed: int | None = None
    stop: str | Sequence[str] = ()
    stop_token_ids: Sequence[int] = ()
    ignore_eos: bool = False

    def __post_init__(self) -> None:
        for field in _fields(type(self)):
            _check_type(field.name, getattr(self, field.name), field.type)
        for name, (least, most) in RANGES.items():
            _within(name, getattr(self, name), least, most)
        if self.top_p == 0:
            raise RequestError("top_p must be over 0", param="top_p")
        if len(self.stops) > MOST_STOPS:
            raise RequestError(
                f"stop takes at most {MOST_STOPS} strings, not {len(self.stops)}", param="stop"
            )
        if not all(1 <= len(text) <= MOST_STOP_CHARACTERS for text in self.stops):
            raise RequestError(
                f"each stop string must have from 1 to {MOST_STOP_CHARACTERS} characters", param="stop"
            )
        if len(self.stop_token_ids) > MOST_STOP_TOKENS:
            raise RequestError(
                f"stop_token_ids takes at most {MOST_STOP_TOKENS} ids, not {len(self.stop_token_ids)}",
                param="stop_token_ids",
            )

    @property
    def stops(self) -> tuple[str, ...]:
        """The stop strings."""
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop)

    def stop_tokens(self, eos: Iterable[int]) -> tuple[int, ...]:
        """Tokens that end the answer, where the model's own end tokens are `eos`."""
        return (*(() if self.ignore_eos else sorted(eos)), *self.stop_token_ids)

    def samplings(self, default_seed: int | None) -> list[Sampling]:
        """What an engine needs, for each of the `n` answers. Without any seed a fresh one is drawn."""
        seed = self.seed if self.seed is not None else default_seed
        first = secrets.randbits(64) if seed is None else seed
        top_k = max(self.top_k, 0)
        return [
            Sampling(self.temperature, top_k, self.top_p, self.min_p, (first + choice) % SEEDS)
            for choice in range(self.n)
        ]


@cache
def _fields(params: type[SamplingParams]) -> tuple[msgspec.structs.FieldInfo, ...]:
    return msgspec.structs.fields(params)  # which reads their types anew each time


def _check_type(name: str, value: Any, kind: Any) -> None:
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        problem = str(error)
        raise RequestError(f"{name}: {problem[:1].lower()}{problem[1:]}", param=name) from None


def _within(name: str, value: float | None, least: float, most: float | None) -> None:
    """Check that `value`, unless it is None, lies in the range (and is a number at all)."""
    if value is not None and not (least <= value and (most is None or value <= most)):
        allowed = f"at least {least}" if most is None else f"from {least} to {most}"
        raise RequestError(f"{name} must be {allowed}, not {value}", param=name)
