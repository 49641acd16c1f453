"""OpenVINO GenAI's continuous batching behind OpenAI's streaming completions.

Settings: its defaults, among them 256 prompt tokens a step, which keep answers going while prompts are
computed, and all cores; with its prefix cache, as ours has one. A token's text is that of the token alone.
Runs in the rival's own environment.

    python serve_openvino.py --model FILE.gguf --port 8000
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import queue
import threading
from collections.abc import AsyncIterator
from functools import lru_cache
from typing import Any

import numpy as np
import openvino
import openvino_genai as genai
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, StreamingResponse
from starlette.routing import Route

CACHE_GB = 4
NAME = "openvino"


class Order:
    """A request on its way: tokens come into `answer` as lists, in `loop`; an empty one is the end."""

    def __init__(self, prompt: list[int], config: genai.GenerationConfig) -> None:
        self.prompt = prompt
        self.config = config
        self.loop = asyncio.get_running_loop()
        self.answer: asyncio.Queue[list[int]] = asyncio.Queue()
        self.cancelled = False


class Engine(threading.Thread):
    """The pipeline, stepped in a thread of its own as long as there is work."""

    def __init__(self, model: str, batched_tokens: int) -> None:
        super().__init__(daemon=True)
        scheduler = genai.SchedulerConfig()
        scheduler.max_num_batched_tokens = batched_tokens
        scheduler.enable_prefix_caching = True
        scheduler.cache_size = CACHE_GB
        self._pipeline = genai.ContinuousBatchingPipeline(model, scheduler, "CPU", {})
        self._orders: queue.SimpleQueue[Order] = queue.SimpleQueue()
        self._ids = itertools.count()
        self.text = lru_cache(None)(lambda token: self._pipeline.get_tokenizer().decode([token]))

    def submit(self, order: Order) -> None:
        self._orders.put(order)

    def run(self) -> None:
        running: list[tuple[Order, Any]] = []
        while True:
            while not running or not self._orders.empty():
                order = self._orders.get()
                ids = openvino.Tensor(np.array([order.prompt], np.int64))
                running.append((order, self._pipeline.add_request(next(self._ids), ids, order.config)))
            self._pipeline.step()
            running = [(order, handle) for order, handle in running if self._deliver(order, handle)]

    def _deliver(self, order: Order, handle: Any) -> bool:
        """Hand on what the last step brought; whether there is more to come."""
        if order.cancelled:
            handle.cancel()
            return False
        if not handle.can_read():
            return True
        [output] = handle.read().values()
        ended = output.finish_reason != genai.GenerationFinishReason.NONE
        batches = [list(output.generated_ids), *([[]] if ended else [])]
        order.loop.call_soon_threadsafe(lambda: [order.answer.put_nowait(tokens) for tokens in batches])
        return not ended


def application(engine: Engine, max_len: int) -> Starlette:
    async def models(request: Request) -> JSONResponse:
        return JSONResponse({"object": "list", "data": [{"id": NAME, "max_model_len": max_len}]})

    async def completions(request: Request) -> StreamingResponse:
        body = json.loads(await request.body())
        config = genai.GenerationConfig()
        config.max_new_tokens = body["max_tokens"]
        config.ignore_eos = bool(body.get("ignore_eos"))
        config.do_sample = False
        order = Order(body["prompt"], config)
        engine.submit(order)
        return StreamingResponse(events(engine, order), media_type="text/event-stream")

    routes = [Route("/v1/models", models), Route("/v1/completions", completions, methods=["POST"])]
    return Starlette(routes=routes)


async def events(engine: Engine, order: Order) -> AsyncIterator[bytes]:
    """An event for each token, then one with the finish reason, the usage, and the end."""
    count = 0
    try:
        while tokens := await order.answer.get():
            for token in tokens:
                count += 1
                yield event([{"index": 0, "text": engine.text(token), "finish_reason": None}])
        reason = "length" if count >= order.config.max_new_tokens else "stop"
        yield event([{"index": 0, "text": "", "finish_reason": reason}])
        prompt = len(order.prompt)
        yield event([], {"prompt_tokens": prompt, "completion_tokens": count, "total_tokens": prompt + count})
        yield b"data: [DONE]\n\n"
    finally:
        order.cancelled = True


def event(choices: list[dict[str, Any]], usage: dict[str, int] | None = None) -> bytes:
    chunk = {"object": "text_completion", "model": NAME, "choices": choices, "usage": usage}
    return b"data: " + json.dumps(chunk).encode() + b"\n\n"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", required=True, help="a GGUF file")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--max-len", type=int, default=8192, help="tokens of prompt and answer together")
    parser.add_argument("--batched-tokens", type=int, default=256, help="of prompts in a step at most")
    args = parser.parse_args()
    engine = Engine(args.model, args.batched_tokens)
    engine.start()
    uvicorn.run(application(engine, args.max_len), port=args.port, log_level="warning")


if __name__ == "__main__":
    main()
