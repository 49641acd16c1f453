"""Timing steps as an engine takes them, on a clock that starts when all requests are there."""

from __future__ import annotations

import time

from twinfer._native import Decoder
from twinfer.bench.timing import Timing, timing
from twinfer.engine.forward import forward
from twinfer.engine.sequence import Sequence
from twinfer.kv.layout import PAGE_TOKENS
from twinfer.messages import Decode, Prefill, Sampling, Task
from twinfer.policy.batching import plan_step

WARM_STEPS = 3


def prefill(
    decoder: Decoder, prompts: list[list[int]], tables: list[list[int]], chunk: int
) -> tuple[float, list[int]]:
    """Compute prompts to their first tokens, in steps of `chunk` tokens: the seconds, and those tokens."""
    waiting = {
        i: Sequence(Prefill(i, prompt, 0, table, _stamps(table), _task(table)), PAGE_TOKENS)
        for i, (prompt, table) in enumerate(zip(prompts, tables, strict=True))
    }
    first = [0] * len(prompts)
    began = time.perf_counter()
    while waiting:
        plan = plan_step((sequence.item for sequence in waiting.values()), (), chunk=chunk, max_batch=1)
        batch = [(waiting[request], count) for request, count in plan.prompts]
        for (sequence, count), token in zip(batch, forward(decoder, batch), strict=True):
            sequence.advance(count)
            if not len(sequence.tokens):
                first[sequence.request] = token
                del waiting[sequence.request]
    return time.perf_counter() - began, first


def decode(decoder: Decoder, first: list[int], context: int, tables: list[list[int]], steps: int) -> Timing:
    """Go on after `context` tokens of each sequence, whose KV is there, and its `first`: a step's timing."""
    batch = [
        (Sequence(Decode(i, [token], context, table, _stamps(table), _task(table)), PAGE_TOKENS), 1)
        for i, (token, table) in enumerate(zip(first, tables, strict=True))
    ]
    seconds: list[float] = []
    for _ in range(WARM_STEPS + steps):
        began = time.perf_counter()
        for (sequence, count), token in zip(batch, forward(decoder, batch), strict=True):
            sequence.advance(count)
            sequence.append(token)
        seconds.append(time.perf_counter() - began)
    return timing(seconds[WARM_STEPS:])


def _stamps(table: list[int]) -> list[int]:
    """Pages that never had other content carry stamps of 0."""
    return [0] * len(table)


def _task(table: list[int]) -> Task:
    """Greedy, and as long as the sequence's pages reach."""
    return Task(Sampling(temperature=0.0), (), len(table) * PAGE_TOKENS)
