"""What `LLM.generate` and `LLM.chat` return."""

from __future__ import annotations

import msgspec

from twinfer.timeline import Timeline


class Usage(msgspec.Struct, frozen=True):
    """Tokens that a request took. The end token counts as part of the answer.

    `cached_tokens` are those of the prompt that were not computed, since their KV was there already.
    """

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0

    @property
    def total_tokens(self) -> int:
        """Both together."""
        return self.prompt_tokens + self.completion_tokens


class Metrics(msgspec.Struct, frozen=True):
    """How long a request took, in seconds.

    queueing   arrival to the first kernel
    ttft       arrival to the first token
    tpot       mean gap between tokens after the first
    handover   prefill's last kernel to the first decode step; 0 where there was none
    total      arrival to the end
    """

    queueing: float
    ttft: float
    tpot: float
    handover: float
    total: float

    @classmethod
    def of(cls, times: Timeline) -> Metrics:
        """The metrics of a request that has ended."""
        total = times.finished - times.arrived
        return cls(times.queueing, times.ttft, times.tpot, times.handover, total)


class CompletionOutput(msgspec.Struct, frozen=True):
    """One answer. `finish_reason` is "stop" or "length"; `token_ids` include the end token."""

    index: int
    text: str
    token_ids: list[int]
    finish_reason: str
    usage: Usage
    metrics: Metrics


class RequestOutput(msgspec.Struct, frozen=True):
    """The answers to one prompt. `prompt` is its text, or None where token ids were given."""

    prompt: str | None
    prompt_token_ids: list[int]
    outputs: list[CompletionOutput]

    @property
    def metrics(self) -> Metrics:
        """Those of the first answer."""
        return self.outputs[0].metrics

    @property
    def usage(self) -> Usage:
        """The prompt's tokens once, and those of all answers."""
        answers = sum(output.usage.completion_tokens for output in self.outputs)
        return Usage(len(self.prompt_token_ids), answers, self.outputs[0].usage.cached_tokens)
