"""What the engine benchmark found: the rows of its tables and of its JSON line."""

from __future__ import annotations

import msgspec

from twinfer.bench.roofline import Bound, Ceiling
from twinfer.bench.shapes import Prompts
from twinfer.bench.timing import Timing


class PrefillRow(msgspec.Struct, frozen=True):
    """`n` prompts of `len` tokens: prompt tokens a second, and the share of the bound that this is.

    `spread` is the distance of the slowest repeat from the quickest, over the median.
    """

    n: int
    len: int
    tok_s: float
    seconds: float
    spread: float
    share: float
    regime: str


class DecodeRow(msgspec.Struct, frozen=True):
    """A step of `batch` sequences after `context` tokens each, and tokens a second of all together."""

    batch: int
    context: int
    step_ms: float
    tok_s: float
    spread: float
    share: float
    regime: str


class Report(msgspec.Struct, frozen=True):
    """Prefill and decode in the order asked for, the ceilings they are held against, and what was run.

    `precision` and `weight_bytes` (read by a step) are those of prefill and decode.
    """

    prefill: list[PrefillRow]
    decode: list[DecodeRow]
    ceiling: Ceiling
    model: str
    threads: int
    isa: str
    precision: tuple[str, str]
    kv_dtype: str
    weight_bytes: tuple[int, int]


def prefill_row(prompts: Prompts, timing: Timing, bound: Bound) -> PrefillRow:
    """The row of a shape of prompts."""
    return PrefillRow(
        n=prompts.count,
        len=prompts.length,
        tok_s=round(prompts.tokens / timing.seconds, 1),
        seconds=round(timing.seconds, 4),
        spread=round(timing.spread, 3),
        share=round(bound.seconds / timing.seconds, 3),
        regime=bound.regime,
    )


def decode_row(batch: int, context: int, timing: Timing, bound: Bound) -> DecodeRow:
    """The row of a batch."""
    return DecodeRow(
        batch=batch,
        context=context,
        step_ms=round(1000 * timing.seconds, 3),
        tok_s=round(batch / timing.seconds, 1),
        spread=round(timing.spread, 3),
        share=round(bound.seconds / timing.seconds, 3),
        regime=bound.regime,
    )


def as_json(report: Report) -> str:
    """The report as one line of JSON."""
    return msgspec.json.encode(report).decode()
