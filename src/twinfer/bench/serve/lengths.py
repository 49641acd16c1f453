"""How long prompts and answers are: fixed, from a distribution, scaled, and cut to a model's context."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

import msgspec
import numpy as np

from twinfer.errors import ConfigError

AT_ONCE = 1024
"""Lengths drawn together."""

NUMBER = r"(\d+(?:\.\d+)?)"


class Spec(msgspec.Struct, frozen=True):
    """A distribution of lengths.

    fixed: always `a`. uniform: from `a` to `b`, both included. lognormal: median `a`, and `b` is the
    standard deviation of the logarithm.
    """

    kind: Literal["fixed", "uniform", "lognormal"]
    a: float
    b: float = 0.0


class Lengths(msgspec.Struct, frozen=True):
    """Tokens of a prompt and of its answer."""

    input: int
    output: int


def parse(name: str, text: str) -> Spec:
    """A distribution from "256", "uniform:128-512" or "lognormal:256,0.8"; `name` is the option's.

    Raises:
        ConfigError: it is none of these, or allows no length of at least 1.
    """
    if match := re.fullmatch(r"\d+", text):
        spec = Spec("fixed", int(text))
    elif match := re.fullmatch(r"uniform:(\d+)-(\d+)", text):
        spec = Spec("uniform", int(match[1]), int(match[2]))
    elif match := re.fullmatch(f"lognormal:{NUMBER},{NUMBER}", text):
        spec = Spec("lognormal", float(match[1]), float(match[2]))
    else:
        raise ConfigError(
            f"{name} must be a length such as 256, uniform:128-512 or lognormal:256,0.8, not '{text}'"
        )
    if spec.a < 1 or (spec.kind == "uniform" and spec.b < spec.a):
        raise ConfigError(f"{name} must allow lengths of 1 and more, the lesser one first, not '{text}'")
    return spec


def described(spec: Spec) -> str:
    """A distribution in words."""
    if spec.kind == "uniform":
        return f"from {spec.a:g} to {spec.b:g}"
    if spec.kind == "lognormal":
        return f"of median {spec.a:g} (lognormal, {spec.b:g})"
    return f"{spec.a:g}"


def draw(spec: Spec, stream: int, seed: int) -> Iterator[int]:
    """Lengths of at least 1, without end; the same for the same stream and seed."""
    source = np.random.default_rng([stream, seed])
    while True:
        yield from np.maximum(1, np.rint(_numbers(spec, source))).astype(np.int64).tolist()


def _numbers(spec: Spec, source: np.random.Generator) -> np.ndarray:
    if spec.kind == "uniform":
        return source.integers(int(spec.a), int(spec.b), AT_ONCE, endpoint=True)
    if spec.kind == "lognormal":
        return source.lognormal(np.log(spec.a), spec.b, AT_ONCE)
    return np.full(AT_ONCE, spec.a)


def scaled(length: int, scale: float) -> int:
    """A length times `scale`, at least 1."""
    return max(1, round(length * scale))


def clipped(lengths: Lengths, max_len: int | None) -> Lengths:
    """Lengths that fit a context of `max_len` tokens, at least 2, together.

    The prompt is cut first, down to half the context; then the answer.
    """
    if max_len is None or lengths.input + lengths.output <= max_len:
        return lengths
    prompt = min(lengths.input, max(max_len - lengths.output, max_len // 2))
    return Lengths(prompt, min(lengths.output, max_len - prompt))
