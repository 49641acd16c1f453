"""Runs llama.cpp through the low-level functions of llama-cpp-python, as its own batched benchmark does.

Settings: built for this processor, batches of 512 tokens, flash attention and weight repacking where it has
them (its defaults), KV in float16, and a KV cache for each sequence instead of a common one, without which
large batches are several times slower. The first token and those of each step are the largest logits.
"""

from __future__ import annotations

import argparse
import ctypes
import time

import llama_cpp as lib
import numpy as np
from work import main

BATCH = 512
ROOM = 64


class LlamaCpp:
    """The model, and a context that is made anew whenever more or longer sequences need one."""

    def __init__(self, model: str, threads: int) -> None:
        lib.llama_log_set(_silence, ctypes.c_void_p(0))
        lib.llama_backend_init()
        self._model = lib.llama_model_load_from_file(model.encode(), lib.llama_model_default_params())
        if not self._model:
            raise SystemExit(f"llama.cpp cannot read {model}")
        self._vocab = lib.llama_vocab_n_tokens(lib.llama_model_get_vocab(self._model))
        self._threads = threads
        self._context = None
        self._shape = (0, 0)

    def prefill(self, prompts: list[list[int]]) -> float:
        self._open(len(prompts), len(prompts[0]))
        began = time.perf_counter()
        self._compute(prompts)
        return time.perf_counter() - began

    def decode(self, prompts: list[list[int]], steps: int) -> list[float]:
        self._open(len(prompts), len(prompts[0]) + steps)
        tokens = self._compute(prompts)
        seconds = []
        for step in range(steps):
            began = time.perf_counter()
            position = len(prompts[0]) + step
            tokens = self._step([(token, position, i, True) for i, token in enumerate(tokens)])
            seconds.append(time.perf_counter() - began)
        return seconds

    def facts(self) -> dict[str, str]:
        size = ctypes.create_string_buffer(128)
        lib.llama_model_desc(self._model, size, 128)
        return {
            "version": lib.__version__,
            "threads": str(self._threads),
            "model": size.value.decode(),
            "kv": "f16",
            "n_batch": str(BATCH),
            "system": lib.llama_print_system_info().decode().strip(),
        }

    def _compute(self, prompts: list[list[int]]) -> list[int]:
        """Packs all prompts into batches; their first tokens."""
        rows = [
            (token, position, i, position == len(prompt) - 1)
            for i, prompt in enumerate(prompts)
            for position, token in enumerate(prompt)
        ]
        return [token for at in range(0, len(rows), BATCH) for token in self._step(rows[at : at + BATCH])]

    def _step(self, rows: list[tuple[int, int, int, bool]]) -> list[int]:
        """Computes rows of (token, position, sequence, wanted); a token for each wanted one."""
        batch = self._batch
        batch.n_tokens = len(rows)
        for i, (token, position, sequence, wanted) in enumerate(rows):
            batch.token[i] = token
            batch.pos[i] = position
            batch.n_seq_id[i] = 1
            batch.seq_id[i][0] = sequence
            batch.logits[i] = wanted
        if lib.llama_decode(self._context, batch) != 0:
            raise SystemExit("llama.cpp could not compute a batch")
        wanted = sum(row[3] for row in rows)
        if not wanted:
            lib.llama_synchronize(self._context)
            return []
        logits = np.ctypeslib.as_array(lib.llama_get_logits(self._context), (wanted, self._vocab))
        return [int(row.argmax()) for row in logits]

    def _open(self, sequences: int, length: int) -> None:
        """An empty context with room for this many sequences of this length."""
        if self._context is not None and self._shape == (sequences, length):
            lib.llama_memory_clear(lib.llama_get_memory(self._context), True)
            return
        if self._context is not None:
            lib.llama_batch_free(self._batch)
            lib.llama_free(self._context)
        params = lib.llama_context_default_params()
        params.n_ctx = sequences * (length + ROOM)
        params.n_batch = params.n_ubatch = BATCH
        params.n_seq_max = sequences
        params.n_threads = params.n_threads_batch = self._threads
        params.kv_unified = False
        params.no_perf = True
        self._context = lib.llama_init_from_model(self._model, params)
        self._batch = lib.llama_batch_init(BATCH, 0, 1)
        self._shape = (sequences, length)


@lib.llama_log_callback
def _silence(level: int, text: bytes, data: object) -> None:
    """Its messages are for people who look for faults."""


def start(args: argparse.Namespace) -> LlamaCpp:
    return LlamaCpp(args.model, args.threads)


if __name__ == "__main__":
    main(start)
