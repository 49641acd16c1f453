"""Reading recorded loads: the shipped traces, and files of the three formats there are.

twinfer   CSV  `milliseconds,input,output[,blocks]`; blocks are ids and ranges of ids such as `0 14-27`
Azure     CSV  `TIMESTAMP,ContextTokens,GeneratedTokens`
Mooncake  JSON lines with timestamp (ms), input_length, output_length, hash_ids
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterable
from datetime import datetime
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import msgspec

from twinfer.errors import ConfigError

SHIPPED = {
    "azure-code": "azure_code.csv.gz",
    "azure-conv": "azure_conv.csv.gz",
    "mooncake": "mooncake_conversation.csv.gz",
}
BLOCK_TOKENS = 512
"""Tokens that one block id stands for, before lengths are scaled."""


class Row(msgspec.Struct, frozen=True):
    """A request: seconds after the trace's start, tokens, and the ids of its prompt's blocks.

    Prompts whose ids begin alike begin with the same tokens. Without ids, prompts share nothing.
    """

    seconds: float
    input: int
    output: int
    blocks: tuple[int, ...] = ()


class MooncakeRow(msgspec.Struct):
    timestamp: float
    input_length: int
    output_length: int
    hash_ids: tuple[Annotated[int, msgspec.Meta(ge=0)], ...] = ()


def read(trace: str) -> list[Row]:
    """The rows of a shipped trace, or of a file, in order of arrival and from second 0.

    Raises:
        ConfigError: there is no such trace, or a line of it is not understood.
    """
    if trace in SHIPPED:
        data = (files("twinfer.bench") / "traces" / SHIPPED[trace]).read_bytes()
    else:
        try:
            data = Path(trace).read_bytes()
        except OSError as error:
            known = ", ".join(SHIPPED)
            raise ConfigError(
                f"trace '{trace}' is none of {known}, and not a readable file: {error.strerror}"
            ) from None
    try:
        text = (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).decode()
    except (OSError, EOFError, UnicodeDecodeError):
        raise ConfigError(f"trace '{trace}' is not text, or damaged") from None
    return parse(trace, text.splitlines())


def parse(name: str, lines: Iterable[str]) -> list[Row]:
    """The rows of a trace's lines; `name` is for messages.

    Raises:
        ConfigError: the format is not known, a line is not understood, or there are no rows.
    """
    numbered = [(number, line) for number, line in enumerate(lines, 1) if line.strip()]
    first = numbered[0][1] if numbered else ""
    parse_line = _format(name, first)
    rows = [
        _row(parse_line, line, f"line {number} of trace '{name}'")
        for number, line in (numbered if first.startswith("{") else numbered[1:])
    ]
    if not rows:
        raise ConfigError(f"trace '{name}' has no requests")
    rows.sort(key=lambda row: row.seconds)
    start = rows[0].seconds
    return [Row(row.seconds - start, max(1, row.input), max(1, row.output), row.blocks) for row in rows]


def _row(parse_line: Callable[[str], Row], line: str, where: str) -> Row:
    try:
        return parse_line(line)
    except (ValueError, msgspec.MsgspecError):
        raise ConfigError(f"{where} is not understood: {line[:60]}") from None


def _format(name: str, first: str) -> Callable[[str], Row]:
    if first.startswith("{"):
        return _mooncake
    if first.startswith("milliseconds,input,output"):
        return _twinfer
    if first.upper().startswith("TIMESTAMP,CONTEXTTOKENS,GENERATEDTOKENS"):
        return _azure
    raise ConfigError(
        f"trace '{name}' begins with '{first[:60]}'; it must be CSV with the header milliseconds,input,output"
        " or Azure's, or JSON lines as Mooncake's"
    )


def _twinfer(line: str) -> Row:
    milliseconds, prompt, answer, *blocks = line.split(",")
    return Row(int(milliseconds) / 1000, int(prompt), int(answer), expand(blocks[0]) if blocks else ())


def _azure(line: str) -> Row:
    when, prompt, answer = line.split(",")
    whole, _, fraction = when.strip().partition(".")
    digits = fraction.partition("+")[0]  # 7 digits, and in later traces a time zone, always UTC.
    seconds = datetime.fromisoformat(whole.partition("+")[0] + "+00:00").timestamp()
    return Row(seconds + float(f"0.{digits or 0}"), int(prompt), int(answer))


def _mooncake(line: str) -> Row:
    row = msgspec.json.decode(line, type=MooncakeRow)
    return Row(row.timestamp / 1000, row.input_length, row.output_length, row.hash_ids)


def expand(blocks: str) -> tuple[int, ...]:
    """Ids from ids and inclusive ranges: "0 14-17" is 0, 14, 15, 16, 17."""
    ids: list[int] = []
    for part in blocks.split():
        low, _, high = part.partition("-")
        ids.extend(range(int(low), int(high or low) + 1))
    return tuple(ids)


def collapse(ids: Iterable[int]) -> str:
    """The reverse of `expand`."""
    runs: list[list[int]] = []
    for each in ids:
        if runs and each == runs[-1][1] + 1:
            runs[-1][1] = each
        else:
            runs.append([each, each])
    return " ".join(f"{low}-{high}" if low < high else f"{low}" for low, high in runs)
