"""What is asked, in which order, whatever the rate: rows of lengths and shared blocks, and jobs of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
import numpy as np

from twinfer.bench.serve import lengths, traces
from twinfer.bench.serve.lengths import Lengths
from twinfer.bench.serve.seeds import INPUTS, ORDER, OUTPUTS
from twinfer.bench.serve.traces import Row
from twinfer.errors import ConfigError


class Workload(msgspec.Struct, frozen=True):
    """Lengths from `trace` where there is one, else from the distributions `input` and `output`."""

    input: lengths.Spec
    output: lengths.Spec
    trace: list[Row] | None = None
    length_scale: float = 1.0
    max_len: int | None = None
    seed: int = 0


class Job(msgspec.Struct, frozen=True):
    """A request to send: the index'th, `due` seconds after the start; lengths are final.

    `clipped` says that the context was too small for what the workload wanted.
    """

    index: int
    due: float
    input: int
    output: int
    blocks: tuple[int, ...] = ()
    clipped: bool = False


def workload(
    prompt: str,
    answer: str,
    trace: str | None,
    *,
    length_scale: float,
    max_len: int | None,
    seed: int,
) -> Workload:
    """A checked workload, its trace read.

    Raises:
        ConfigError: an option is not understood or out of range, or the trace cannot be read.
    """
    if not 0 < length_scale < float("inf"):
        raise ConfigError(f"length-scale must be over 0, not {length_scale}")
    if max_len is not None and max_len < 2:
        raise ConfigError(f"max-len must be at least 2, not {max_len}")
    if not 0 <= seed < 1 << 64:
        raise ConfigError(f"seed must be from 0 to 2^64 - 1, not {seed}")
    specs = lengths.parse("input", prompt), lengths.parse("output", answer)
    rows = None if trace is None else traces.read(trace)
    return Workload(*specs, rows, length_scale, max_len, seed)


def jobs(work: Workload, arrivals: Iterator[float]) -> Iterator[Job]:
    """The workload's requests at these arrivals, without end if they are."""
    return (
        _job(work, index, due, row)
        for index, (due, row) in enumerate(zip(arrivals, rows(work), strict=False))
    )


def replay(work: Workload, time_scale: float) -> Iterator[Job]:
    """The trace as it was, its times multiplied by `time_scale`; it ends as the trace does."""
    recorded = enumerate(work.trace or [])
    return (_job(work, index, row.seconds * time_scale, row) for index, row in recorded)


def rows(work: Workload) -> Iterator[Row]:
    """Lengths and blocks before they are scaled, without end; those of a trace as `laps` has them."""
    if work.trace is not None:
        yield from laps(work.trace, work.seed)
    inputs = lengths.draw(work.input, INPUTS, work.seed)
    outputs = lengths.draw(work.output, OUTPUTS, work.seed)
    for prompt, answer in zip(inputs, outputs, strict=False):
        yield Row(0.0, prompt, answer)


def laps(trace: Sequence[Row], seed: int) -> Iterator[Row]:
    """A trace's rows again and again.

    Rows that share nothing come in random order, since neighbours resemble each other, and a short run would
    not be like the trace. Shared blocks want their order kept, from a random row on; each lap has blocks of
    its own, so that a second lap is not found in a cache.
    """
    source = np.random.default_rng([ORDER, seed])
    shared = any(row.blocks for row in trace)
    distinct = 1 + max((max(row.blocks, default=0) for row in trace), default=0)
    start = int(source.integers(len(trace)))
    lap = 0
    while True:
        order = np.roll(np.arange(len(trace)), -start) if shared else source.permutation(len(trace))
        for row in (trace[place] for place in order.tolist()):
            yield Row(0.0, row.input, row.output, tuple(each + lap * distinct for each in row.blocks))
        lap += 1


def _job(work: Workload, index: int, due: float, row: Row) -> Job:
    wanted = Lengths(
        lengths.scaled(row.input, work.length_scale), lengths.scaled(row.output, work.length_scale)
    )
    final = lengths.clipped(wanted, work.max_len)
    return Job(index, due, final.input, final.output, row.blocks, final != wanted)
