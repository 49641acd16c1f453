"""What a benchmark is asked to measure, as written on the command line."""

from __future__ import annotations

import re

import msgspec

from twinfer.errors import ConfigError
from twinfer.policy.pages import pages_for


class Prompts(msgspec.Struct, frozen=True):
    """`count` prompts of `length` tokens each."""

    count: int
    length: int

    @property
    def tokens(self) -> int:
        """Tokens of all prompts together."""
        return self.count * self.length


def parse_prompts(text: str) -> list[Prompts]:
    """Shapes from "8x512,4x2048"; none from an empty text.

    Raises:
        ConfigError: it is not of that form.
    """
    shapes: list[Prompts] = []
    for part in _parts(text):
        match = re.fullmatch(r"([1-9]\d*)x([1-9]\d*)", part)
        if match is None:
            raise ConfigError(f"'{part}' is no shape of prompts; write for example 8x512 for 8 of 512 tokens")
        shapes.append(Prompts(int(match[1]), int(match[2])))
    return shapes


def parse_counts(text: str) -> list[int]:
    """Batch sizes from "1,4,16"; none from an empty text.

    Raises:
        ConfigError: it is not of that form.
    """
    for part in _parts(text):
        if re.fullmatch(r"[1-9]\d*", part) is None:
            raise ConfigError(f"'{part}' is no batch size; write for example 1,4,16")
    return [int(part) for part in _parts(text)]


def page_tables(count: int, length: int, page_tokens: int) -> list[list[int]]:
    """Tables of `count` sequences that hold `length` tokens each, over the first pages of a pool."""
    pages = pages_for(length, page_tokens)
    return [list(range(i * pages, (i + 1) * pages)) for i in range(count)]


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",")] if text.strip() else []
