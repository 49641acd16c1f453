"""The decisions of a live router and its engines are made again, from what each of them heard and when."""

import asyncio
import functools
import os
import random
import signal

import msgspec
import pytest

from twinfer import serving
from twinfer.bench.serve.traces import read
from twinfer.cluster.host import Host
from twinfer.config import Config
from twinfer.errors import OverloadedError
from twinfer.messages import Sampling
from twinfer.policy.pages import PageLedger
from twinfer.router.core import Core
from twinfer.router.generation import Generation
from twinfer.router.memory import Memory

from .engine import recording as engines
from .router.recording import Recorder, replay

FASTER, SHORTER = 20, 8


def asked():
    """The first minute of the Azure conversation trace, shorter and faster, with beginnings in common."""
    source = random.Random(5)
    system = [source.randrange(300, 40000) for _ in range(40)]
    for number, row in enumerate(row for row in read("azure-conv") if row.seconds < 60):
        own = [source.randrange(300, 40000) for _ in range(min(250, 1 + row.input // SHORTER))]
        prompt = (system if number % 3 == 0 else []) + own
        how = Sampling(temperature=(0.0, 0.8)[number % 2], seed=number)
        answer = 2 + min(60, row.output // SHORTER)
        priority, timeout = (0, 1, -1)[number % 3], (None, None, 0.2)[number // 2 % 3]
        generation = Generation(prompt, how, answer, (2,), priority=priority, timeout=timeout)
        yield row.seconds / FASTER, generation


async def serve(config):
    """The trace against a real deployment whose decode engine dies in the middle of it."""
    async with serving.open(config, print) as deployment:
        router = deployment.router

        async def one(after, generation):
            await asyncio.sleep(after)
            try:
                ticket = router.submit(generation)
            except OverloadedError:
                return
            async for _ in ticket:
                pass

        async def kill():
            await asyncio.sleep(1.5)
            victim = next(engine for engine in router.engines() if engine["role"] != "prefill")
            os.kill(victim["pid"], signal.SIGKILL)

        await asyncio.gather(kill(), *(one(*request) for request in asked()))


@pytest.mark.parametrize(
    "options",
    [
        {"slo_ttft": 2.0, "slo_tpot": 0.02, "prefill_chunk": 64},
        {"placement": "colocate", "prefill_chunk": 32},
    ],
    ids=["disaggregated", "colocated"],
)
def test_decisions_are_made_again_on_a_clock_of_paper(model_path, monkeypatch, tmp_path, options):
    made = []

    def recorder(memory, **options):
        made.append(Recorder(memory, **options))
        return made[-1]

    monkeypatch.setattr(serving, "Core", recorder)
    monkeypatch.setattr(serving, "Host", functools.partial(Host, program=engines.__name__))
    monkeypatch.setenv(engines.FOLDER, str(tmp_path))
    asyncio.run(serve(Config.from_options(kv_pool_size="24MiB", check=True, **options)))
    [live] = made
    names = [line.split(b'"')[3] for line in live.lines]
    assert names.count(b"submit") > 10
    assert names.count(b"on_step") > 100
    assert b"lose_engine" in names
    memory = Memory(PageLedger(live.memory.ledger.total), live.memory.page_tokens, live.memory._cache)
    assert replay(live.lines, Core(memory, **live.options)) == live.sent
    assert len(live.sent) > 50
    recorded = [engines.read(path) for path in sorted(tmp_path.iterdir())]
    assert len(recorded) == len(live.engines) + 1  # the dead one's place was filled by another
    for options, events in recorded:
        for event, made_again in zip(events, engines.replay(options, events), strict=True):
            assert made_again == (event.outcome, event.asked)
    events = [event for _, events in recorded for event in events]
    steps = [event for event in events if event.asked]
    assert len(steps) > 100
    assert any(len(msgspec.msgpack.decode(step.asked[0], strict=False)[0]) > 1 for step in steps)
    assert any(event.waits == [True] for event in events) == (len(live.engines) > 1)
