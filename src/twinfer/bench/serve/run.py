"""One run against a server: getting to know it, warming it up, measuring."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from tqdm import tqdm

from twinfer.bench.serve import lengths
from twinfer.bench.serve.address import Address
from twinfer.bench.serve.answer import Answer
from twinfer.bench.serve.client import Asking, reach
from twinfer.bench.serve.discover import find_dialect, find_model
from twinfer.bench.serve.load import Load, Watch, closed_loop, open_loop, plan
from twinfer.bench.serve.report import Facts, Run
from twinfer.bench.serve.wire import Dialect
from twinfer.bench.serve.workload import Job, Workload
from twinfer.turns import CARRYING, take_turns

CHAT_MARGIN = 64
"""Tokens of the context left for what a chat template adds, which the client cannot know."""

WARMING = 1 << 62
"""Salt of the warm-up's contents."""

MOST_WARMING = 4
"""Warm-up requests at a time."""

LOOK_EVERY = 0.25
"""Seconds between looks at whether a run can be given up."""


class Server(msgspec.Struct, frozen=True):
    """Which server to ask for what, and how. `ignore_eos` None is: where the server takes it."""

    address: Address
    model: str | None = None
    chat: bool = False
    ignore_eos: bool | None = None
    temperature: float = 0.0
    timeout: float = 600.0
    api_key: str | None = None


class Prepared(msgspec.Struct, frozen=True):
    """A server that was reached, and the workload cut to its context."""

    asking: Asking
    work: Workload


async def prepare(server: Server, work: Workload, say: Callable[[str], None]) -> Prepared:
    """Reach the server and find out how to ask it.

    What is measured then is the server, whatever else it does on the cores that we share with it: tokens are
    heard as they come, as they would be on a machine of our own.

    Raises:
        ServerError: it cannot be reached, or does not answer.
    """
    take_turns(CARRYING)
    place = await reach(server.address)
    model, max_len = await find_model(place, server.model, server.api_key)
    dialect = Dialect(model, server.chat, temperature=server.temperature)
    asking = Asking(
        place,
        dialect,
        seed=work.seed,
        length_scale=work.length_scale,
        timeout=server.timeout,
        api_key=server.api_key,
    )
    asking = msgspec.structs.replace(asking, dialect=await find_dialect(asking, server.ignore_eos))
    if server.ignore_eos is None and not asking.dialect.ignore_eos:
        say("the server does not take ignore_eos; answers may end early")
    if not asking.dialect.usage:
        say("the server does not take stream_options; tokens are counted as events")
    return Prepared(asking, _within(work, max_len, server.chat))


def _within(work: Workload, max_len: int | None, chat: bool) -> Workload:
    """The workload cut to the smaller of its own limit and the server's."""
    if max_len is not None:
        max_len = max(2, max_len - (CHAT_MARGIN if chat else 0))
    told = [limit for limit in (work.max_len, max_len) if limit is not None]
    return msgspec.structs.replace(work, max_len=min(told, default=None))


async def warm_up(prepared: Prepared, requests: int) -> list[Answer]:
    """Requests like the workload's, but of other contents, that are not counted."""
    asking = msgspec.structs.replace(prepared.asking, salt=WARMING)
    answers: list[Answer] = []
    jobs = plan(prepared.work, Load(concurrency=1, requests=requests))
    await closed_loop(asking, jobs, MOST_WARMING, None, Watch(answers.append, lambda answer: None))
    return answers


async def measure(
    asking: Asking,
    jobs: Iterator[Job],
    load: Load,
    bar: tqdm[Any],
    give_up: Callable[[list[Answer], float], bool] | None = None,
) -> Run:
    """Send the jobs as the load says, until all are answered, or `give_up` says that it is no use.

    `give_up` is asked now and then, with all answers that have begun and the time on their clock.
    """
    answers: list[Answer] = []

    def ended(answer: Answer) -> None:
        bar.update()

    watch = Watch(answers.append, ended)
    began, cpu = time.perf_counter(), time.process_time()
    if load.concurrency is None:
        sending = open_loop(asking, jobs, watch)
    else:
        sending = closed_loop(asking, jobs, load.concurrency, load.duration, watch)
    task = asyncio.create_task(sending)
    try:
        while not (await asyncio.wait([task], timeout=LOOK_EVERY if give_up else None))[0]:
            if give_up is not None and give_up(answers, time.perf_counter()):
                break
    finally:
        task.cancel()
        outcome = (await asyncio.gather(task, return_exceptions=True))[0]
    if isinstance(outcome, Exception):
        raise outcome
    duration = max((answer.ended for answer in answers), default=began) - began
    spent = time.process_time() - cpu
    wall = time.perf_counter() - began
    return Run(answers, began, duration, spent / wall)


def facts(prepared: Prepared, load: str, sizes: str) -> Facts:
    """What a run measures, in words."""
    dialect = prepared.asking.dialect
    return Facts(
        url=prepared.asking.place.address.url,
        model=dialect.model,
        load=load,
        lengths=sizes,
        seed=prepared.work.seed,
        ignore_eos=dialect.ignore_eos,
    )


def described(work: Workload, trace: str | None) -> str:
    """The workload's lengths in words."""
    name = f"lengths of {trace}"
    if trace is None:
        prompt, answer = lengths.described(work.input), lengths.described(work.output)
        name = f"prompts {prompt}, answers {answer} tokens"
    return name if work.length_scale == 1 else f"{name}, x{work.length_scale:g}"
