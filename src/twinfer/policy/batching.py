"""What an engine's next step carries."""

from __future__ import annotations

import math
from collections.abc import Iterable

import msgspec

from twinfer.policy.chunking import step_tokens
from twinfer.policy.queueing import is_late, turn

WHOLE_PROMPTS_BUDGET = 2048


class Item(msgspec.Struct, frozen=True):
    """A request with `pending` tokens to compute, of which `room` fit into its pages.

    `arrived`, `priority` and `due` decide its turn among prompts. A step carries at most `chunk` tokens of
    it; 0 for no bound of its own.
    """

    request: int
    pending: int
    room: int
    arrived: float = 0.0
    priority: int = 0
    due: float = math.inf
    chunk: int = 0


class Plan(msgspec.Struct, frozen=True):
    """One step: `(request, tokens)` of each phase; in decode one token each, as a rule."""

    prompts: list[tuple[int, int]]
    decodes: list[tuple[int, int]]


def plan_step(
    prompts: Iterable[Item],
    decodes: Iterable[Item],
    *,
    chunk: int,
    max_batch: int,
    now: float = 0.0,
    rate: float = 0.0,
) -> Plan:
    """Compose a step from prompts and decodes.

    Prompts are packed by their turns up to `chunk` tokens, or fewer where they are due soon after they come;
    the last one is split. Those that will be late at `rate` prompt tokens a second come last. With `chunk`
    0 prompts stay whole and go first, in a step of their own, as in a traditional server. Requests without
    a page for their next token sit the step out.
    """
    prompts = sorted(prompts, key=lambda item: _turn(item, now, rate))
    if chunk == 0:
        whole = _pack_whole(prompts)
        if whole:
            return Plan(whole, [])
    ready = [(item.request, item.pending) for item in decodes if item.room >= item.pending]
    wanted = min((item.due - item.arrived for item in prompts), default=math.inf)
    return Plan(_pack_chunks(prompts, step_tokens(chunk, rate, wanted)), ready[:max_batch])


def _turn(item: Item, now: float, rate: float) -> float:
    late = is_late(now, item.pending, rate, item.due)
    return turn(item.arrived, item.pending, item.priority, late)


def _pack_chunks(prompts: Iterable[Item], budget: int) -> list[tuple[int, int]]:
    packed: list[tuple[int, int]] = []
    for item in prompts:
        tokens = min(item.pending, item.room, budget, item.chunk or budget)
        if tokens > 0:
            packed.append((item.request, tokens))
            budget -= tokens
        if budget == 0:
            break
    return packed


def _pack_whole(prompts: Iterable[Item]) -> list[tuple[int, int]]:
    packed: list[tuple[int, int]] = []
    total = 0
    for item in prompts:
        if item.room < item.pending:
            continue
        if packed and total + item.pending > WHOLE_PROMPTS_BUDGET:
            break
        packed.append((item.request, item.pending))
        total += item.pending
    return packed
