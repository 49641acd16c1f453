"""The offline API: a deployment of its own behind plain method calls."""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import threading
from collections.abc import Coroutine, Sequence
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, TypeVar

import msgspec
import uvloop
from tqdm import tqdm

from twinfer import serving
from twinfer.config import Config
from twinfer.errors import ConfigError, RequestError, TwinferError
from twinfer.model.detokenize import TextStream
from twinfer.outputs import CompletionOutput, Metrics, RequestOutput, Usage
from twinfer.router.generation import Generation, generations, new_family
from twinfer.router.ticket import Ticket
from twinfer.sampling import SamplingParams

T = TypeVar("T")
Prompt = str | Sequence[int]
Message = dict[str, Any]


class LLM:
    """A model with its engines, ready to generate; a context manager.

    Args:
        model: None or "smollm2" for the default model, a GGUF file, a Hugging Face folder, a hub name.
        disaggregate_prefill: False for one mixed engine on the same cores, like `colocate=True`.
        options: the other fields of `twinfer.config.Config`, by name.

    Raises:
        ConfigError: an option is unknown, out of range or cannot be honoured.
        ModelError: the model cannot be had or read.
        EngineError: an engine failed to start.
    """

    def __init__(
        self, model: str | None = None, *, disaggregate_prefill: bool | None = None, **options: Any
    ) -> None:
        if disaggregate_prefill is not None:
            colocate = options.setdefault("colocate", not disaggregate_prefill)
            both = disaggregate_prefill and options.get("placement") == "colocate"
            if colocate == disaggregate_prefill or both:
                raise ConfigError("disaggregate_prefill and colocate contradict each other; set one of them")
        config = Config.from_options(model=model, **options)
        self._background = Background()
        try:
            self._serving = self._background.call(self._background.enter(serving.open(config, _notify)))
        except BaseException:
            self._background.close()
            raise
        atexit.register(self.close)

    def generate(
        self,
        prompts: Prompt | Sequence[Prompt],
        sampling_params: SamplingParams | Sequence[SamplingParams] | None = None,
        *,
        use_tqdm: bool = True,
    ) -> list[RequestOutput]:
        """Continue prompts, given as texts, lists of token ids, or a mix; the results come in their order.

        `sampling_params` is one for all, or one for each.

        Raises:
            RequestError: a prompt is empty or too long, or holds an unknown token; nothing was started.
            EngineError: a request was lost.
        """
        listed = _as_list(prompts)
        tokens = [self._tokens(prompt) for prompt in listed]
        texts = [prompt if isinstance(prompt, str) else None for prompt in listed]
        return self._run(texts, tokens, sampling_params, use_tqdm)

    def chat(
        self,
        messages: Sequence[Message] | Sequence[Sequence[Message]],
        sampling_params: SamplingParams | Sequence[SamplingParams] | None = None,
        *,
        use_tqdm: bool = True,
    ) -> list[RequestOutput]:
        """Answer a conversation, or each of several; a message is `{"role": …, "content": …}`.

        Raises:
            RequestError: the model has no chat template or refuses the messages, or as in `generate`.
            EngineError: a request was lost.
        """
        template = self._serving.template
        if template is None:
            raise RequestError("this model has no chat template; use generate()", param="messages")
        texts = [template.render([*conversation]) for conversation in _as_conversations(messages)]
        tokens = [self._serving.tokenizer.encode(text) for text in texts]
        return self._run(list(texts), tokens, sampling_params, use_tqdm)

    def engines(self) -> list[dict[str, Any]]:
        """Every engine: id, role, pid, cores, state, and its running and waiting requests."""
        return self._background.call(self._describe())

    @property
    def kv_bytes_per_token(self) -> int:
        """Bytes of KV that a token takes in the pool."""
        return self._serving.kv_layout.token_bytes

    def close(self) -> None:
        """End all engines. Idempotent."""
        atexit.unregister(self.close)
        self._background.close()

    def __enter__(self) -> LLM:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def _describe(self) -> list[dict[str, Any]]:
        return self._serving.router.engines()

    def _tokens(self, prompt: Prompt) -> list[int]:
        tokenizer = self._serving.tokenizer
        if isinstance(prompt, str):
            return tokenizer.encode(prompt)
        try:
            tokens = msgspec.convert(list(prompt), list[int])
        except msgspec.ValidationError:
            raise RequestError("a prompt must be a text or a list of token ids", param="prompts") from None
        if tokens and not (min(tokens) >= 0 and max(tokens) < tokenizer.vocab_size):
            raise RequestError(
                f"a prompt holds a token id outside 0 to {tokenizer.vocab_size - 1}", param="prompts"
            )
        return tokens

    def _run(
        self,
        texts: list[str | None],
        tokens: list[list[int]],
        sampling_params: SamplingParams | Sequence[SamplingParams] | None,
        use_tqdm: bool,
    ) -> list[RequestOutput]:
        params = _for_each(sampling_params, len(tokens))
        family = new_family(sum(own.n for own in params))
        planned = [self._plan(prompt, own, family) for prompt, own in zip(tokens, params, strict=True)]
        with tqdm(total=len(tokens), desc="Requests", unit="req", disable=not use_tqdm) as bar:
            answers = self._background.call(self._answer_all(planned, params, bar))
        return [RequestOutput(*output) for output in zip(texts, tokens, answers, strict=True)]

    def _plan(self, prompt: list[int], params: SamplingParams, family: str) -> list[Generation]:
        return generations(
            prompt,
            params,
            eos=self._serving.tokenizer.eos,
            default_seed=self._serving.config.seed,
            max_model_len=self._serving.router.max_model_len,
            param="prompts",
            family=family,
        )

    async def _answer_all(
        self, planned: list[list[Generation]], params: Sequence[SamplingParams], bar: tqdm[Any]
    ) -> list[list[CompletionOutput]]:
        async def one(branches: list[Generation], own: SamplingParams) -> list[CompletionOutput]:
            answers = [self._answer(index, branch, own) for index, branch in enumerate(branches)]
            outputs = await asyncio.gather(*answers)
            bar.update()
            return list(outputs)

        tasks = [asyncio.ensure_future(one(*pair)) for pair in zip(planned, params, strict=True)]
        try:
            return list(await asyncio.gather(*tasks))
        finally:
            for task in tasks:
                task.cancel()

    async def _answer(self, index: int, generation: Generation, params: SamplingParams) -> CompletionOutput:
        ticket = self._serving.router.submit(generation)
        try:
            return await self._collect(index, ticket, params)
        finally:
            ticket.cancel()

    async def _collect(self, index: int, ticket: Ticket, params: SamplingParams) -> CompletionOutput:
        stream = TextStream(self._serving.tokenizer, params.stops)
        text: list[str] = []
        tokens: list[int] = []
        async for fresh in ticket:
            tokens += fresh
            text.append(stream.push(fresh))
            if stream.stopped:
                ticket.cancel()
                break
        text.append(stream.finish())
        reason = "stop" if stream.stopped else ticket.finish_reason or "stop"
        usage = Usage(len(ticket.request.generation.prompt), len(tokens), ticket.cached_tokens)
        return CompletionOutput(index, "".join(text), tokens, reason, usage, Metrics.of(ticket.timeline))


class Background:
    """An event loop in a thread of its own, with the contexts entered there."""

    def __init__(self) -> None:
        self._loop = uvloop.new_event_loop()
        self._stack = AsyncExitStack()
        self._thread = threading.Thread(target=self._loop.run_forever, name="twinfer", daemon=True)
        self._thread.start()

    def enter(self, context: Any) -> Coroutine[Any, Any, Any]:
        """Enter an asynchronous context, to be left by `close`."""
        return self._stack.enter_async_context(context)

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` in the loop and wait for it; an interrupt here cancels it there."""
        if not self._thread.is_alive():
            work.close()
            raise TwinferError("this LLM is closed")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            concurrent.futures.wait([future])
            raise

    def close(self) -> None:
        """Leave the contexts and end the thread. Idempotent."""
        if self._thread.is_alive():
            self.call(self._stack.aclose())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()


def _as_list(prompts: Prompt | Sequence[Prompt]) -> list[Prompt]:
    if isinstance(prompts, str):
        return [prompts]
    if len(prompts) > 0 and isinstance(prompts[0], int):
        return [prompts]  # type: ignore[list-item]
    return list(prompts)  # type: ignore[arg-type]


def _as_conversations(messages: Sequence[Message] | Sequence[Sequence[Message]]) -> list[Sequence[Message]]:
    if not messages:
        raise RequestError("messages must not be empty", param="messages")
    if isinstance(messages[0], dict):
        return [messages]  # type: ignore[list-item]
    return list(messages)  # type: ignore[arg-type]


def _for_each(params: SamplingParams | Sequence[SamplingParams] | None, count: int) -> list[SamplingParams]:
    if params is None:
        return [SamplingParams()] * count
    if isinstance(params, SamplingParams):
        return [params] * count
    if len(params) != count:
        raise RequestError(f"{len(params)} sampling_params for {count} prompts", param="sampling_params")
    return list(params)


def _notify(text: str) -> None:
    tqdm.write(text)
