"""How requests are sent over time, and sending them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from itertools import islice, repeat, takewhile

import msgspec

from twinfer.bench.serve import workload
from twinfer.bench.serve.answer import Answer
from twinfer.bench.serve.arrivals import arrivals
from twinfer.bench.serve.client import Asking, ask, encode
from twinfer.bench.serve.workload import Job, Workload
from twinfer.errors import ConfigError

DEFAULT_REQUESTS = 100


class Watch(msgspec.Struct, frozen=True):
    """Who is told of answers that begin and that have ended."""

    began: Callable[[Answer], None]
    ended: Callable[[Answer], None]


class Load(msgspec.Struct, frozen=True):
    """Exactly one of the three ways to send requests, and when to send no more.

    rate          open loop: requests a second, their gaps as bursty as `burstiness` says
    concurrency   closed loop: this many clients, each asking again as soon as it is answered
    time_scale    open loop: when the trace says, with its times multiplied by this
    requests, duration   none more after so many, or so many seconds; whichever comes first
    """

    rate: float | None = None
    burstiness: float = 1.0
    concurrency: int | None = None
    time_scale: float | None = None
    requests: int | None = None
    duration: float | None = None

    def described(self) -> str:
        if self.rate is not None:
            arrive = "" if self.burstiness == 1 else f", burstiness {self.burstiness:g}"
            return f"{self.rate:g} req/s{arrive}"
        if self.time_scale is not None:
            return f"arrivals of the trace, times x{self.time_scale:g}"
        return f"{self.concurrency} at a time"


def checked(load: Load, has_trace: bool) -> Load:
    """The load, with what was left open filled in: one request at a time, a hundred of them.

    Raises:
        ConfigError: an option is out of range, or two contradict each other.
    """
    ways = {"rate": load.rate, "concurrency": load.concurrency, "time-scale": load.time_scale}
    chosen = [name for name, value in ways.items() if value is not None]
    if len(chosen) > 1:
        raise ConfigError(f"choose one of --{chosen[0]} and --{chosen[1]}")
    for name, value in (*ways.items(), ("burstiness", load.burstiness), ("duration", load.duration)):
        if value is not None and not value > 0:
            raise ConfigError(f"{name} must be over 0, not {value:g}")
    if load.requests is not None and load.requests < 1:
        raise ConfigError(f"requests must be at least 1, not {load.requests}")
    if load.time_scale is not None and not has_trace:
        raise ConfigError("time-scale replays a trace; name one with --trace")
    if load.rate == float("inf") and load.requests is None:
        raise ConfigError("an infinite rate needs --requests")
    if not chosen:
        load = msgspec.structs.replace(load, concurrency=1)
    if load.requests is None and load.duration is None:
        load = msgspec.structs.replace(load, requests=DEFAULT_REQUESTS)
    return load


def plan(work: Workload, load: Load) -> Iterator[Job]:
    """The requests of a checked load; for a closed loop all due at once, and its end by time not in it."""
    if load.time_scale is not None:
        jobs = workload.replay(work, load.time_scale)
    elif load.rate is not None:
        jobs = workload.jobs(work, arrivals(load.rate, load.burstiness, work.seed, load.requests))
    else:
        jobs = workload.jobs(work, repeat(0.0))
    if load.duration is not None:
        end = load.duration
        jobs = takewhile(lambda job: job.due < end, jobs)
    return islice(jobs, load.requests)


async def open_loop(asking: Asking, jobs: Iterator[Job], watch: Watch) -> None:
    """Send every job when it is due, and wait for all answers."""
    tasks: list[asyncio.Task[None]] = []
    began = time.perf_counter()
    try:
        for job in jobs:
            request = encode(asking, job)  # While there is time before it is due.
            delay = began + job.due - time.perf_counter()
            if delay > 0 or len(tasks) % 16 == 15:
                await asyncio.sleep(max(0.0, delay))
            tasks.append(asyncio.create_task(_one(asking, job, request, began + job.due, watch)))
        await asyncio.gather(*tasks)
    finally:
        await _end(tasks)


async def closed_loop(
    asking: Asking, jobs: Iterator[Job], clients: int, duration: float | None, watch: Watch
) -> None:
    """Let `clients` send one job after the other until there are none, or the time is over."""
    end = float("inf") if duration is None else time.perf_counter() + duration

    async def client() -> None:
        for job in jobs:
            if time.perf_counter() >= end:
                return
            await _one(asking, job, encode(asking, job), time.perf_counter(), watch)

    tasks = [asyncio.create_task(client()) for _ in range(clients)]
    try:
        await asyncio.gather(*tasks)
    finally:
        await _end(tasks)


async def _one(asking: Asking, job: Job, request: bytes, due: float, watch: Watch) -> None:
    watch.ended(await ask(asking, job, request, due, watch.began))


async def _end(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
