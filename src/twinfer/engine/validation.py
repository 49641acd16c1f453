"""Whether what the router asks can be meant: pages that exist, lengths that fit, tokens of the vocabulary.

An engine that is asked for something else ends: router and engine do not understand each other.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NoReturn

import msgspec

from twinfer.errors import BadMessageError
from twinfer.messages import Cancel, Decode, Grant, Load, Prefill, Sampling, Task, ToEngine

LARGEST_INT32 = (1 << 31) - 1
MOST_SEED = (1 << 64) - 1
MOST_STAMP = (1 << 32) - 1


class Bounds(msgspec.Struct, frozen=True):
    """What this engine works on: tokens of the vocabulary, pages of the pool, tokens of a page."""

    vocab: int
    pages: int
    page_tokens: int


def check_load(load: Load) -> None:
    """The sizes in a `Load` are such as can be; weights and layout are checked when they are read.

    Raises:
        BadMessageError: they are not.
    """
    place = load.place
    slots = range(place.engines)
    if place.slot not in slots or any(slot not in slots or core < 0 for core, slot in place.lenders):
        _refuse(f"slot {place.slot} or a lender is none of the {place.engines} engines")
    regions = [load.prefill.region, load.pool.region, place.region]
    regions += [load.decode.region] if load.decode else []
    if any(region.nbytes < 1 or not 0 <= region.fd <= LARGEST_INT32 for region in regions):
        _refuse("a region of shared memory is empty or has no descriptor")
    if load.pool.page_tokens < 1 or load.prefill_chunk < 0 or load.max_batch_size < 1:
        _refuse("sizes of pages, chunks and batches must be positive")
    if load.slo_tpot is not None and not 0 < load.slo_tpot < math.inf:
        _refuse(f"{load.slo_tpot} is not a time between tokens")


def check(message: ToEngine, bounds: Bounds, room: Callable[[int], int | None]) -> None:
    """A message to an engine that has its model.

    `room(request)` is how many pages a request could still be granted, None when it is not here.

    Raises:
        BadMessageError: it cannot be meant.
    """
    match message:
        case Prefill() | Decode():
            _check_start(message, bounds, room(message.request) is not None)
        case Grant():
            _check_pages(message.pages, message.stamps, bounds)
            left = room(message.request)
            if left is not None and len(message.pages) > left:
                _refuse(f"more pages than request {message.request} can use")
        case Cancel():
            if message.placement < 1:
                _refuse(f"placement {message.placement}")
        case Load():
            _refuse("a second Load")


def _check_start(start: Prefill | Decode, bounds: Bounds, here: bool) -> None:
    if here or not 0 < start.request < 1 << 63:
        _refuse(f"request {start.request} is here already, or has no proper number")
    tokens, task = start.tokens, start.task
    if not tokens or min(tokens) < 0 or max(tokens) >= bounds.vocab:
        _refuse(f"no tokens, or one outside the vocabulary of {bounds.vocab}")
    _check_task(task, bounds)
    if isinstance(start, Prefill) and start.chunk < 0:
        _refuse(f"chunks of {start.chunk} tokens")
    if start.computed < 0 or start.computed + len(tokens) >= task.max_length:
        _refuse(f"{len(tokens)} tokens after {start.computed} do not fit into {task.max_length}")
    _check_pages(start.pages, start.stamps, bounds)
    pages = len(start.pages) * bounds.page_tokens
    if not start.computed <= pages < task.max_length + bounds.page_tokens:
        _refuse(f"{len(start.pages)} pages for {start.computed} of {task.max_length} tokens")


def _check_pages(pages: list[int], stamps: list[int], bounds: Bounds) -> None:
    if not pages or len(pages) != len(stamps) or len(set(pages)) != len(pages):
        _refuse(f"{len(pages)} pages with {len(stamps)} stamps, or a page twice")
    if min(pages) < 0 or max(pages) >= bounds.pages:
        _refuse(f"a page that is none of the pool's {bounds.pages}")
    if min(stamps) < 0 or max(stamps) > MOST_STAMP:
        _refuse("a stamp that is none")


def _check_task(task: Task, bounds: Bounds) -> None:
    if not 0 < task.max_length <= bounds.pages * bounds.page_tokens:
        _refuse(f"a length of {task.max_length} in a pool of {bounds.pages} pages")
    if not (0 <= task.arrived < math.inf and abs(task.priority) <= LARGEST_INT32):
        _refuse("an arrival or a priority that is none")
    if not task.due >= 0:
        _refuse(f"{task.due} is no time for a first token")
    _check_sampling(task.sampling)


def _check_sampling(how: Sampling) -> None:
    if not (
        0 <= how.temperature < math.inf
        and 0 <= how.top_k <= LARGEST_INT32
        and 0 <= how.top_p <= 1
        and 0 <= how.min_p <= 1
        and 0 <= how.seed <= MOST_SEED
    ):
        _refuse(f"{how} is no way to sample")


def _refuse(reason: str) -> NoReturn:
    raise BadMessageError(f"bad message: {reason}")
