"""The work that every rival is given, and the JSON line that comes out: those of `twinfer bench engine`.

A runner calls `main` with a function that starts its engine. Each runs in its rival's own environment, so
this file needs the standard library only.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import time
from collections.abc import Callable
from typing import Any, Protocol

WARM_STEPS = 3
# Token ids that every vocabulary of a real model has.
TOKENS = range(1000, 32000)


class Engine(Protocol):
    """A rival, ready to compute. It must not reuse anything from one call in the next."""

    def prefill(self, prompts: list[list[int]]) -> float:
        """Compute prompts to their first tokens; the seconds from all requests given to all tokens there."""
        ...

    def decode(self, prompts: list[list[int]], steps: int) -> list[float]:
        """Compute prompts, then go on greedily with all of them together: the seconds of each step."""
        ...

    def facts(self) -> dict[str, str]:
        """Version, precisions and settings."""
        ...


def main(start: Callable[[argparse.Namespace], Engine]) -> None:
    """Measure what the command line asks for, and print one JSON line."""
    args = _arguments()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: args.threads])
    engine = start(args)
    report = {
        "prefill": [_prefill(engine, args, count, length) for count, length in args.prefill],
        "decode": [_decode(engine, args, batch) for batch in args.decode],
        "threads": args.threads,
        "facts": engine.facts(),
    }
    print(json.dumps(report), flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True, help="a file or folder that this rival reads")
    parser.add_argument("--threads", type=int, required=True, help="cores to compute on")
    parser.add_argument("--prefill", type=_shapes, default=[], metavar="8x512,4x2048")
    parser.add_argument("--decode", type=_counts, default=[], metavar="1,4,16,64")
    parser.add_argument("--context", type=int, default=256, help="tokens before the answers")
    parser.add_argument("--repeats", type=int, default=5, help="of each prefill; the median counts")
    parser.add_argument("--steps", type=int, default=32, help="of each decode, likewise")
    parser.add_argument("--patience", type=float, default=20, help="seconds of repeats at most")
    parser.add_argument("--seed", type=int, default=0, help="of the random prompts")
    return parser.parse_args()


def _prefill(engine: Engine, args: argparse.Namespace, count: int, length: int) -> dict[str, Any]:
    prompts = _random_prompts(args.seed, count, length)
    engine.prefill(prompts)  # Some compile for each shape they meet.
    seconds: list[float] = []
    began = time.perf_counter()
    while len(seconds) < args.repeats and (not seconds or time.perf_counter() - began < args.patience):
        seconds.append(engine.prefill(prompts))
    median = statistics.median(seconds)
    return {
        "n": count,
        "len": length,
        "tok_s": round(count * length / median, 1),
        "seconds": round(median, 4),
        "spread": _spread(seconds),
    }


def _decode(engine: Engine, args: argparse.Namespace, batch: int) -> dict[str, Any]:
    prompts = _random_prompts(args.seed, batch, args.context)
    seconds = engine.decode(prompts, WARM_STEPS + args.steps)[WARM_STEPS:]
    median = statistics.median(seconds)
    return {
        "batch": batch,
        "context": args.context,
        "step_ms": round(1000 * median, 3),
        "tok_s": round(batch / median, 1),
        "spread": _spread(seconds),
    }


def _spread(seconds: list[float]) -> float:
    return round((max(seconds) - min(seconds)) / statistics.median(seconds), 3)


def _random_prompts(seed: int, count: int, length: int) -> list[list[int]]:
    source = random.Random(f"{seed} {count} {length}")
    return [source.choices(TOKENS, k=length) for _ in range(count)]


def _shapes(text: str) -> list[tuple[int, int]]:
    pairs = [part.split("x") for part in text.split(",") if part]
    return [(int(count), int(length)) for count, length in pairs]


def _counts(text: str) -> list[int]:
    return [int(part) for part in text.split(",") if part]
