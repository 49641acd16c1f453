"""The router's view of an engine: its role, and the requests it was given."""

from __future__ import annotations

import msgspec

from twinfer.messages import Role, Step
from twinfer.policy.routing import Load
from twinfer.router.request import Request


class Work(msgspec.Struct):
    """What an engine has done since it started, for the metrics. Seconds and counts."""

    steps: int = 0
    busy: float = 0.0
    prompt_tokens: int = 0
    decode_tokens: int = 0


class EngineView(msgspec.Struct, eq=False):
    """An engine that takes requests, with those it holds now, by number."""

    id: str
    role: Role
    prefilling: dict[int, Request] = msgspec.field(default_factory=dict[int, Request])
    decoding: dict[int, Request] = msgspec.field(default_factory=dict[int, Request])
    work: Work = msgspec.field(default_factory=Work)

    @property
    def prefills(self) -> bool:
        """Whether it takes prompts."""
        return self.role != "decode"

    @property
    def decodes(self) -> bool:
        """Whether it takes requests that have their first token."""
        return self.role != "prefill"

    @property
    def load(self) -> Load:
        """Its work ahead, as the routing policy sees it."""
        ahead = sum(len(request.tokens) - request.computed for request in self.prefilling.values())
        return Load(self.id, ahead, len(self.decoding))

    def count(self, step: Step) -> None:
        """Add a step to the work done."""
        self.work.steps += 1
        self.work.busy += step.ended - step.began
        self.work.prompt_tokens += step.prompt_tokens
        self.work.decode_tokens += step.batch

    def drop(self, request: Request) -> None:
        """Forget a request that it no longer holds."""
        self.prefilling.pop(request.id, None)
        self.decoding.pop(request.id, None)
