"""`twinfer bench engine`: how fast one engine computes, and how near to the machine's limit that is.

There is no router and no HTTP. Prompts are random, so nothing can be reused. Prefill computes them in the
engine's own chunks, from all requests taken to all first tokens sampled; decode goes on after them, greedily.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import msgspec

from twinfer.bench import steps
from twinfer.bench.ceiling import measure_ceiling
from twinfer.bench.report import DecodeRow, PrefillRow, Report, decode_row, prefill_row
from twinfer.bench.rig import Rig, build_rig
from twinfer.bench.roofline import Ceiling, Phase, bound, decode_work, prefill_work, weight_bytes
from twinfer.bench.shapes import Prompts, page_tables
from twinfer.bench.timing import repeat
from twinfer.config import PRECISIONS, Config
from twinfer.errors import ConfigError
from twinfer.kv.layout import PAGE_TOKENS
from twinfer.model.checkpoint import Checkpoint
from twinfer.policy.pages import pages_for
from twinfer.serving import Shape, decide

Notify = Callable[[str], None]


class Options(msgspec.Struct, frozen=True):
    """What to measure, and how often. `patience` bounds the seconds that the repeats of one shape take."""

    threads: int
    isa: str
    prefill: list[Prompts]
    decode: list[int]
    context: int = 256
    precision: str = "auto"
    kv_dtype: str = "auto"
    repeats: int = 5
    steps: int = 32
    patience: float = 20.0
    seed: int = 0

    @property
    def final_length(self) -> int:
        """Tokens of a sequence once decode has been measured."""
        return self.context + steps.WARM_STEPS + self.steps + 1


class Bench(msgspec.Struct, frozen=True):
    """What is measured, and all that it is held against; `before` and `after` are prefill and decode."""

    rig: Rig
    options: Options
    before: Phase
    after: Phase
    ceiling: Ceiling
    chunk: int
    notify: Notify


def run(options: Options, checkpoint: Checkpoint, cores: list[int], notify: Notify) -> Report:
    """Measure on the first `threads` of `cores`; `notify` hears what is being measured.

    The calling thread stays pinned to the first core.

    Raises:
        ConfigError: an option cannot be honoured with this model or on this machine.
    """
    check(options, cores, checkpoint.description.context_length)
    cores = cores[: options.threads]
    config = _config(options)
    shape = decide(config, checkpoint, cores)
    before, after = (_phase(checkpoint, shape, precision) for precision in shape.precisions)
    notify("measuring the machine's ceilings")
    ceiling = measure_ceiling(cores, options.isa)
    rig = build_rig(shape, cores, options.isa, pages_needed(options))
    bench = Bench(rig, options, before, after, ceiling, config.prefill_chunk, notify)
    return Report(
        prefill=[_prefill(bench, prompts) for prompts in options.prefill],
        decode=_decode(bench),
        ceiling=ceiling,
        model=checkpoint.description.name,
        threads=options.threads,
        isa=rig.prefill.isa,
        precision=shape.precisions,
        kv_dtype=shape.kv.dtype,
        weight_bytes=(before.weight_bytes, after.weight_bytes),
    )


def check(options: Options, cores: list[int], context_length: int) -> None:
    """Refuse what cannot be measured with these cores and a model of this context.

    Raises:
        ConfigError: says what is wrong and what would be right.
    """
    if not 1 <= options.threads <= len(cores):
        raise ConfigError(f"threads must be from 1 to the {len(cores)} usable cores, not {options.threads}")
    if options.precision not in PRECISIONS:
        raise ConfigError(f"precision must be one of {', '.join(PRECISIONS)}, not '{options.precision}'")
    for name in ("context", "repeats", "steps"):
        if getattr(options, name) < 1:
            raise ConfigError(f"{name} must be at least 1, not {getattr(options, name)}")
    if not options.prefill and not options.decode:
        raise ConfigError("there is nothing to measure: give --prefill or --decode")
    longest = max(length for _, length in _sequences(options))
    if longest > context_length:
        raise ConfigError(f"sequences of {longest} tokens are over the model's context of {context_length}")


def pages_needed(options: Options) -> int:
    """Pages that the largest of the batches takes; each is measured on its own."""
    return max(count * pages_for(length, PAGE_TOKENS) for count, length in _sequences(options))


def _sequences(options: Options) -> list[tuple[int, int]]:
    """How many sequences of which length there will be at once."""
    decoding = [(max(options.decode), options.final_length)] if options.decode else []
    return [(prompts.count, prompts.length) for prompts in options.prefill] + decoding


def _config(options: Options) -> Config:
    return Config.from_options(
        colocate=True,
        prefill_precision=options.precision,
        decode_precision=options.precision,
        kv_dtype=options.kv_dtype,
        max_batch_size=max(options.decode, default=1),
    )


def _phase(checkpoint: Checkpoint, shape: Shape, precision: str) -> Phase:
    weights = weight_bytes(shape.plans[precision].layout)
    return Phase(checkpoint.description, precision, weights, shape.kv)


def _prefill(bench: Bench, prompts: Prompts) -> PrefillRow:
    bench.notify(f"prefill {prompts.count}x{prompts.length}")
    tokens = _random_prompts(bench, prompts)
    tables = page_tables(prompts.count, prompts.length, PAGE_TOKENS)

    def measure() -> float:
        return steps.prefill(bench.rig.prefill, tokens, tables, bench.chunk)[0]

    measure()
    timing = repeat(measure, bench.options.repeats, bench.options.patience)
    work = prefill_work(bench.before, prompts, bench.chunk)
    return prefill_row(prompts, timing, bound(work, bench.ceiling, bench.before))


def _decode(bench: Bench) -> list[DecodeRow]:
    options = bench.options
    if not options.decode:
        return []
    prompts = Prompts(max(options.decode), options.context)
    bench.notify(f"prefill {prompts.count}x{prompts.length} for decode")
    tables = page_tables(prompts.count, options.final_length, PAGE_TOKENS)
    _, first = steps.prefill(bench.rig.prefill, _random_prompts(bench, prompts), tables, bench.chunk)
    rows: list[DecodeRow] = []
    for batch in options.decode:
        bench.notify(f"decode {batch}")
        timing = steps.decode(bench.rig.decode, first[:batch], options.context, tables[:batch], options.steps)
        # The context grows while it is measured; the bound is of the middle.
        work = decode_work(bench.after, batch, options.context + steps.WARM_STEPS + options.steps // 2)
        rows.append(decode_row(batch, options.context, timing, bound(work, bench.ceiling, bench.after)))
    return rows


def _random_prompts(bench: Bench, prompts: Prompts) -> list[list[int]]:
    source = random.Random(f"{bench.options.seed} {prompts.count} {prompts.length}")
    vocab = range(bench.before.model.vocab)
    return [source.choices(vocab, k=prompts.length) for _ in range(prompts.count)]
