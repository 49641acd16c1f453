import asyncio
import time

from twinfer.policy.pages import PageLedger
from twinfer.router.core import Core
from twinfer.router.idle import Idle
from twinfer.router.memory import Cache, Memory

from ..processes import PATIENCE


class Gathering:
    """Work of some pieces, which says how far the pool was used when it was asked."""

    def __init__(self, pieces):
        self.left = pieces
        self.used = []

    def behind(self, pages):
        self.used.append(pages)
        return self.left > 0

    def advance(self):
        self.left -= 1

    def close(self):
        self.closed = True


def bench(pieces):
    core = Core(Memory(PageLedger(8), 16, Cache()), slots=4, backlog=32)
    gathering = Gathering(pieces)
    return core, gathering, Idle(core, gathering)


async def until(condition):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "it never happened"
        await asyncio.sleep(0.001)


async def turns():
    for _ in range(50):
        await asyncio.sleep(0.001)


def test_nothing_is_done_before_the_start_nor_after_the_end():
    async def run():
        _, gathering, idle = bench(3)
        idle.note()
        await turns()
        assert gathering.left == 3
        idle.start()
        await until(lambda: gathering.left == 0)
        gathering.left = 5
        idle.close()
        idle.close()
        idle.note()
        await turns()
        assert gathering.left == 5
        assert gathering.closed

    asyncio.run(run())


def test_requests_come_first():
    async def run():
        core, gathering, idle = bench(3)
        core.requests[1] = object()
        idle.start()
        await turns()
        assert gathering.left == 3
        core.memory.ledger.grant(1, 5)
        del core.requests[1]
        idle.note()
        idle.note()
        await until(lambda: gathering.left == 0)
        assert set(gathering.used) == {5}

    asyncio.run(run())


def test_it_pauses_when_one_comes_and_goes_on_after_it():
    async def run():
        core, gathering, idle = bench(1000)
        idle.start()
        await until(lambda: gathering.left < 1000)
        core.requests[1] = object()
        await turns()
        left = gathering.left
        assert left > 0
        await turns()
        assert gathering.left == left
        core.requests.clear()
        idle.note()
        await until(lambda: gathering.left == 0)

    asyncio.run(run())
