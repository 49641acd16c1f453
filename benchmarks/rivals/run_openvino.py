"""Runs OpenVINO GenAI's continuous batching, which reads the GGUF file itself.

Settings: its own defaults, which are those of lowest latency, with the threads it is given; no prefix cache.
Its steps take 1,024 prompt tokens, which is as quick as any number, or all prompts of a decode at once, so
that their answers begin together.
"""

from __future__ import annotations

import argparse
import itertools
import time

import numpy as np
import openvino
import openvino_genai as genai
from work import main

BATCHED_TOKENS = 1024
CACHE_GB = 4
DEFAULTS = ("INFERENCE_PRECISION_HINT", "KV_CACHE_PRECISION", "DYNAMIC_QUANTIZATION_GROUP_SIZE")


class OpenVino:
    """A pipeline on `threads` cores that takes up to `tokens` prompt tokens in a step."""

    def __init__(self, model: str, threads: int, tokens: int) -> None:
        scheduler = genai.SchedulerConfig()
        scheduler.max_num_batched_tokens = tokens
        scheduler.enable_prefix_caching = False
        scheduler.cache_size = CACHE_GB
        properties = {"INFERENCE_NUM_THREADS": threads}
        self._pipeline = genai.ContinuousBatchingPipeline(model, scheduler, "CPU", properties)
        self._threads = threads
        self._tokens = tokens
        self._ids = itertools.count()

    def prefill(self, prompts: list[list[int]]) -> float:
        handles = [self._add(prompt, 1) for prompt in prompts]
        began = time.perf_counter()
        while self._pipeline.has_non_finished_requests():
            self._pipeline.step()
        seconds = time.perf_counter() - began
        assert all(len(handle.read_all()[0].generated_ids) == 1 for handle in handles)
        return seconds

    def decode(self, prompts: list[list[int]], steps: int) -> list[float]:
        handles = [self._add(prompt, 1 + steps) for prompt in prompts]
        while not all(handle.can_read() for handle in handles):
            self._pipeline.step()
        seconds = []
        while self._pipeline.has_non_finished_requests():
            began = time.perf_counter()
            self._pipeline.step()
            seconds.append(time.perf_counter() - began)
        assert len(seconds) == steps, "all answers began in one step, and went on together"
        return seconds

    def facts(self) -> dict[str, str]:
        core = openvino.Core()
        settings = {name.lower(): str(core.get_property("CPU", name)) for name in DEFAULTS}
        return {
            "version": genai.__version__,
            "threads": str(self._threads),
            "max_num_batched_tokens": str(self._tokens),
            **settings,
        }

    def _add(self, prompt: list[int], tokens: int) -> genai.GenerationHandle:
        config = genai.GenerationConfig()
        config.max_new_tokens = tokens
        config.ignore_eos = True
        config.do_sample = False
        ids = openvino.Tensor(np.array([prompt], np.int64))
        return self._pipeline.add_request(next(self._ids), ids, config)


def start(args: argparse.Namespace) -> OpenVino:
    tokens = max(BATCHED_TOKENS, max(args.decode, default=0) * args.context)
    return OpenVino(args.model, args.threads, tokens)


if __name__ == "__main__":
    main(start)
