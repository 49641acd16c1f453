"""A whole deployment on this host, from a `Config`: model, shared memory, engines, router.

This is where the parts meet; `api` and `llm` both start here.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import ExitStack, asynccontextmanager

import msgspec
import numpy as np

from twinfer.cluster.cores import usable_cores
from twinfer.cluster.host import Host
from twinfer.cluster.memory import free_memory
from twinfer.cluster.plan import EngineSpec, lenders, plan_engines
from twinfer.config import DEFAULT_MODEL, DEFAULT_POOL_BYTES, Config
from twinfer.kv.board import Board, board_bytes
from twinfer.kv.gathering import Gathering
from twinfer.kv.layout import PAGE_TOKENS, Layout
from twinfer.kv.region import SharedRegion, enlarge_pages, map_region
from twinfer.kv.sizing import PoolSize, size_pool
from twinfer.messages import Load, Place, Pool, Region, Weights
from twinfer.model.checkpoint import Checkpoint
from twinfer.model.description import Description
from twinfer.model.load import load
from twinfer.model.mapped import release
from twinfer.model.pack import Plan, pack, resolve_precision
from twinfer.model.resolve import resolve
from twinfer.model.template import ChatTemplate, load_template
from twinfer.model.tokenizer import Tokenizer, load_tokenizer
from twinfer.policy.pages import PageLedger
from twinfer.router.core import Core
from twinfer.router.links import Links
from twinfer.router.memory import Cache, Memory
from twinfer.router.placing import Placing
from twinfer.router.router import Router
from twinfer.turns import CARRYING, take_turns

BACKLOG_STEPS = 2
WHOLE_PROMPT_STEP = 2048


class Serving(msgspec.Struct, frozen=True):
    """A running deployment. `precisions` are those of prefill and decode, `pool_*` the KV pool's size."""

    config: Config
    model_id: str
    description: Description
    tokenizer: Tokenizer
    template: ChatTemplate | None
    router: Router
    precisions: tuple[str, str]
    kv_layout: Layout
    pool_bytes: int
    pool_tokens: int


class Shape(msgspec.Struct, frozen=True):
    """What was decided about a deployment before anything was started."""

    engines: list[EngineSpec]
    precisions: tuple[str, str]
    plans: dict[str, Plan]
    kv: Layout
    pool: PoolSize


@asynccontextmanager
async def open(config: Config, notify: Callable[[str], None]) -> AsyncGenerator[Serving, None]:
    """Start everything that `config` asks for, and end it all on leaving.

    `notify` hears of what takes long, such as a download.

    Raises:
        ModelError: the model cannot be had or read.
        ConfigError: an option cannot be honoured here.
        EngineError: an engine failed to start.
    """
    path = resolve(config.model, notify)
    checkpoint = load(path)
    shape = decide(config, checkpoint, usable_cores())
    with ExitStack() as stack:
        regions = {name: _region(stack, f"twinfer-{name}", plan.nbytes) for name, plan in shape.plans.items()}
        pool = _region(stack, "twinfer-kv", shape.pool.pages * shape.kv.page_bytes)
        notes = _region(stack, "twinfer-board", board_bytes(len(shape.engines), shape.pool.pages))
        board = Board(map_region(notes.fd, notes.nbytes, writable=True), len(shape.engines))
        take_turns(CARRYING)  # and the engines' threads that carry messages, being started from here
        links = Links()
        host = Host(links.endpoint, [*(region.fd for region in regions.values()), pool.fd, notes.fd])
        router = Router(
            _core(config, shape, board),
            links,
            host,
            max_model_len=shape.pool.max_model_len,
            vocab=checkpoint.description.vocab,
            gathering=Gathering(pool, shape.kv.page_bytes),
            slo_ttft=config.slo_ttft,
            check=config.check,
        )
        try:
            router.start(shape.engines, [board.slot(number) for number in range(len(shape.engines))])
            for name, plan in shape.plans.items():
                await asyncio.to_thread(_write, plan, regions[name])
            release(tensor.data for tensor in checkpoint.tensors.values())
            _, tokenizer, template = await asyncio.gather(
                router.load(_load_maker(config, shape, regions, pool, notes)),
                asyncio.to_thread(load_tokenizer, checkpoint),
                asyncio.to_thread(load_template, checkpoint),
            )
            if template is not None:
                stack.callback(template.close)
            yield Serving(
                config=config,
                model_id=config.model or DEFAULT_MODEL,
                description=checkpoint.description,
                tokenizer=tokenizer,
                template=template,
                router=router,
                precisions=shape.precisions,
                kv_layout=shape.kv,
                pool_bytes=pool.nbytes,
                pool_tokens=shape.pool.pages * PAGE_TOKENS,
            )
        finally:
            await router.close()


def decide(config: Config, checkpoint: Checkpoint, cores: list[int]) -> Shape:
    """Engines, precisions and sizes, from what was asked for and what this machine has."""
    prefill = resolve_precision(checkpoint, config.prefill_precision)
    decode = resolve_precision(checkpoint, config.decode_precision)
    plans = {precision: pack(checkpoint, precision) for precision in (prefill, decode)}
    dtype = config.kv_dtype
    if dtype == "auto":
        dtype = "f32" if "f32" in (prefill, decode) else "bf16"
    model = checkpoint.description
    kv = Layout(model.layers, model.kv_heads, model.head_dim, dtype)
    weights = sum(plan.nbytes for plan in plans.values())
    size = size_pool(
        kv,
        requested=config.kv_pool_size,
        default=DEFAULT_POOL_BYTES,
        bound=max(0, int(free_memory() * config.gpu_memory_utilization) - weights),
        context_length=model.context_length,
        max_model_len=config.max_model_len,
    )
    return Shape(plan_engines(config, cores), (prefill, decode), plans, kv, size)


def _core(config: Config, shape: Shape, board: Board) -> Core:
    prefill, decode = shape.precisions
    # One deployment serves one model; the name matters once pages outlive it or cross between hosts.
    root = "\0".join([str(config.model), prefill, decode, shape.kv.dtype])
    cache = Cache(root if config.prefix_cache else None, same_precision=prefill == decode)
    # A whole prompt would hold up the answers of a decode engine for too long.
    places = config.placement == "auto" and config.prefill_chunk > 0
    return Core(
        Memory(PageLedger(shape.pool.pages, board.stamps), PAGE_TOKENS, cache),
        slots=config.max_batch_size,
        backlog=BACKLOG_STEPS * (config.prefill_chunk or WHOLE_PROMPT_STEP),
        placing=Placing(config.prefill_chunk, config.slo_tpot) if places else None,
        slo_tpot=config.slo_tpot,
    )


def _load_maker(
    config: Config, shape: Shape, regions: dict[str, SharedRegion], pool: SharedRegion, notes: SharedRegion
) -> Callable[[int, int], Load]:
    """What makes the `Load` for an engine's slot on the board and the process that owns it."""

    def weights(precision: str) -> Weights:
        region = regions[precision]
        return Weights(Region(region.fd, region.nbytes), shape.plans[precision].layout)

    prefill, decode = shape.precisions

    def make(slot: int, owner: int) -> Load:
        return Load(
            prefill=weights(prefill),
            decode=None if decode == prefill else weights(decode),
            pool=Pool(Region(pool.fd, pool.nbytes), PAGE_TOKENS, shape.kv.dtype),
            place=Place(
                Region(notes.fd, notes.nbytes), len(shape.engines), slot, owner, lenders(shape.engines, slot)
            ),
            prefill_chunk=config.prefill_chunk,
            max_batch_size=config.max_batch_size,
            slo_tpot=config.slo_tpot,
        )

    return make


def _region(stack: ExitStack, name: str, nbytes: int) -> SharedRegion:
    region = SharedRegion(name, nbytes)
    stack.callback(region.close)
    return region


def _write(plan: Plan, region: SharedRegion) -> None:
    with map_region(region.fd, region.nbytes, writable=True) as mapped:
        enlarge_pages(mapped)
        buffer = np.frombuffer(mapped, np.uint8)
        plan.write(buffer)
        del buffer
