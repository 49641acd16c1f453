"""Runs vLLM on the CPU, its engine in this process. It reads Hugging Face folders, in bf16.

Settings: its defaults, compiled graphs among them, with a thread on each core it is given; no prefix cache.
Its steps take 2,048 prompt tokens, or all prompts of a decode at once, so that their answers begin together.
"""

from __future__ import annotations

import argparse
import itertools
import os
import time
from typing import Any

from work import main

BATCHED_TOKENS = 2048
CACHE_GB = 4


class Vllm:
    """An engine whose sequences are up to `length` tokens long."""

    def __init__(self, args: argparse.Namespace, length: int) -> None:
        os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
        os.environ["VLLM_CPU_KVCACHE_SPACE"] = str(CACHE_GB)
        os.environ["VLLM_CPU_OMP_THREADS_BIND"] = ",".join(map(str, sorted(os.sched_getaffinity(0))))
        os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
        import vllm

        self._vllm = vllm
        self._threads = args.threads
        self._tokens = max(BATCHED_TOKENS, max(args.decode, default=0) * args.context)
        self._engine = vllm.LLM(
            model=args.model,
            skip_tokenizer_init=True,
            dtype="bfloat16",
            enable_prefix_caching=False,
            max_model_len=length,
            max_num_seqs=64,
            max_num_batched_tokens=self._tokens,
        ).llm_engine
        self._ids = itertools.count()

    def prefill(self, prompts: list[list[int]]) -> float:
        for prompt in prompts:
            self._add(prompt, 1)
        began = time.perf_counter()
        while self._engine.has_unfinished_requests():
            self._engine.step()
        return time.perf_counter() - began

    def decode(self, prompts: list[list[int]], steps: int) -> list[float]:
        for prompt in prompts:
            self._add(prompt, 1 + steps)
        begun: set[str] = set()
        while len(begun) < len(prompts):
            begun.update(output.request_id for output in self._engine.step())
        seconds = []
        while self._engine.has_unfinished_requests():
            began = time.perf_counter()
            self._engine.step()
            seconds.append(time.perf_counter() - began)
        return seconds[:steps]

    def facts(self) -> dict[str, str]:
        return {
            "version": self._vllm.__version__,
            "threads": str(self._threads),
            "weights": "bf16",
            "kv": "bf16",
            "max_num_batched_tokens": str(self._tokens),
        }

    def _add(self, prompt: list[int], tokens: int) -> None:
        params: Any = self._vllm.SamplingParams(
            temperature=0, max_tokens=tokens, ignore_eos=True, detokenize=False
        )
        self._engine.add_request(str(next(self._ids)), {"prompt_token_ids": prompt}, params)


def start(args: argparse.Namespace) -> Vllm:
    lengths = [length + 1 for _, length in args.prefill]
    return Vllm(args, max([*lengths, args.context + args.steps + 16]))


if __name__ == "__main__":
    main(start)
