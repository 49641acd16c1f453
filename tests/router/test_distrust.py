"""Engines that talk nonsense to a real router, over a real socket: cut off, counted, started again."""

import asyncio
import time

import msgspec
import pytest
import zmq
import zmq.asyncio

from tests.examples import LOAD, PREFILL
from tests.processes import PATIENCE
from twinfer.cluster.plan import EngineSpec
from twinfer.kv.board import Board, board_bytes
from twinfer.kv.gathering import Gathering
from twinfer.kv.region import SharedRegion
from twinfer.messages import (
    LINK_LOST,
    Decode,
    Failed,
    Hello,
    Load,
    Prefill,
    Ready,
    Released,
    Sampling,
    Stale,
    Step,
    Usage,
)
from twinfer.policy.pages import PageLedger
from twinfer.router import links as links_module
from twinfer.router.core import Core
from twinfer.router.generation import Generation
from twinfer.router.links import Links
from twinfer.router.memory import Cache, Memory
from twinfer.router.router import Router

VOCAB = 50
HOUR = 3600 * 10**9
DECODERS = msgspec.msgpack.Decoder(Load | Prefill | Decode)


class Process:
    """An engine as the fleet sees it."""

    def __init__(self, spec, attempt):
        self.spec, self.attempt, self.pid = spec, attempt, 1000 + attempt
        self.address = f"{spec.id}/{attempt}"
        self.killed = False

    def on_exit(self, heard):
        self.heard = heard

    def kill(self):
        self.killed = True
        asyncio.get_running_loop().call_later(0.02, self.heard, -9)

    def end(self):
        self.killed = True


class Host:
    def __init__(self):
        self.started = []

    def start(self, spec, attempt):
        self.started.append(Process(spec, attempt))
        return self.started[-1]


class CountingLinks(Links):
    """Links that count what they have handed on; it has been acted upon when someone else has a turn."""

    received = 0

    async def receive(self):
        message = await super().receive()
        self.received += 1
        return message


class Bench:
    """A router with one engine, whose process is a socket in the test's hands."""

    def __init__(self):
        self.links, self.host = CountingLinks(), Host()
        self.said = 0
        core = Core(Memory(PageLedger(8), 16, Cache()), slots=4, backlog=32)
        self.core = core
        pool = SharedRegion("test", 4096)
        gathering = Gathering(pool, 512)
        pool.close()
        self.router = Router(
            core, self.links, self.host, max_model_len=100, vocab=VOCAB, gathering=gathering, check=True
        )
        board = Board(memoryview(bytearray(board_bytes(1, 8))), 1)
        slot = board.slot(0)
        self.router.start([EngineSpec("mixed-0", "mixed", [0])], [slot])
        slot.beat = time.monotonic_ns() + HOUR  # Nothing here hangs, however long a test takes.
        self.context = zmq.asyncio.Context()
        self.socket = self.connect("mixed-0/1")

    def connect(self, address):
        socket = self.context.socket(zmq.DEALER)
        socket.linger = 0
        socket.identity = address.encode()
        socket.connect(self.links.endpoint)
        return socket

    async def say(self, *messages, socket=None):
        for message in messages:
            frame = message if isinstance(message, bytes) else msgspec.msgpack.encode(message)
            await (socket or self.socket).send(frame)
            self.said += 1

    async def heard(self):
        """Wait until the router has acted upon all that was said, or passed over it."""
        await self.until(lambda: self.links.received == self.said)

    async def hear(self):
        return DECODERS.decode(await asyncio.wait_for(self.socket.recv(), PATIENCE))

    async def ready(self):
        loading = asyncio.create_task(self.router.load(lambda number, owner: LOAD))
        await self.say(Hello(self.process.pid))
        assert isinstance(await self.hear(), Load)
        await self.say(Ready("generic"))
        await asyncio.wait_for(loading, PATIENCE)

    async def decoding(self):
        """A request of 3 tokens that has got its first answer token, 7."""
        ticket = self.router.submit(Generation([1, 2, 3], Sampling(), 20, (9,)))
        assert isinstance(await self.hear(), Prefill)
        await self.say(step([ticket.request.id], [7], prompt_tokens=3))
        assert isinstance(await self.hear(), Decode)
        return ticket

    @property
    def process(self):
        return self.host.started[0]

    @property
    def bad(self):
        return self.router.metrics.registry.get_sample_value("twinfer_bad_messages_total")

    async def until(self, condition):
        end = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < end
            await asyncio.sleep(0.002)

    async def close(self):
        try:
            await self.router.close()
        finally:
            self.context.destroy()


def step(
    requests=(),
    tokens=(),
    finishes=None,
    chunks=(),
    began=1.0,
    ended=2.0,
    prompt_tokens=0,
    batch=0,
    context=0,
):
    finishes = [0] * len(tokens) if finishes is None else finishes
    return Step(
        list(requests), list(tokens), finishes, list(chunks), began, ended, prompt_tokens, batch, context
    )


def run(scenario):
    async def whole():
        bench = Bench()
        try:
            await scenario(bench)
        finally:
            await bench.close()

    asyncio.run(whole())


BAD = {
    "bytes": b"\xc1nonsense",
    "nothing": b"",
    "an engine's own order": PREFILL,
    "another type": b"\x92\xa5ready\x01",
    "ready twice": Ready("generic"),
    "hello twice": Hello(1001),
    "a request it does not hold": step([99], [1]),
    "a request twice": step([1, 1], [1, 1]),
    "a token out of the vocabulary": step([1], [VOCAB]),
    "a negative token": step([1], [-1]),
    "unequal lengths": step([1], [1, 2]),
    "no such finish": step([1], [1], [5]),
    "a stop that is none": step([1], [8], [1]),
    "the length before its time": step([1], [8], [2]),
    "a chunk of an answer": step(chunks=[(1, 2)]),
    "time backwards": step(began=2.0, ended=1.0),
    "the future": step(ended=1e12),
    "not a time": step(began=float("nan")),
    "more work than there is": step(prompt_tokens=10**6),
    "a larger batch than there is": step(batch=2),
    "more context than there is": step(batch=1, context=1000),
    "usage of cores it has not": Usage([1.0, 1.0, 1.0], 0, 0.0, 0.0, 0.0),
    "usage that counts down": Usage([], 0, -1.0, 0.0, 0.0),
    "usage of the future": Usage([], 0, 1e12, 0.0, 0.0),
    "stale pages of others": Stale([5]),
    "stale pages of nobody": Stale([]),
    "a release nobody asked for": Released(1, 2),
    "a release of a later placement": Released(1, 9),
    "a release of the future": Released(77, 1),
}


@pytest.mark.parametrize("what", BAD)
def test_a_bad_message_ends_the_engine_and_its_requests_go_on(what):
    async def scenario(bench):
        await bench.ready()
        ticket = await bench.decoding()
        # What else the process has to say before it is gone is not used.
        await bench.say(BAD[what], step([ticket.request.id], [8], batch=1))
        await bench.until(bench.router.problems)
        assert bench.process.killed
        [problem] = bench.router.problems()
        assert "bad message: " in problem
        assert "\n" not in problem
        assert bench.bad == 1
        await bench.until(lambda: len(bench.host.started) == 2)
        # What the process still had to say is not used.
        await bench.say(step([ticket.request.id], [8], batch=1))
        await bench.heard()
        assert ticket.request.tokens == [1, 2, 3, 7]
        assert bench.bad == 1
        assert ticket.finish_reason is None

    run(scenario)


@pytest.mark.parametrize("first", [Ready("x"), step(), Hello(5), Released(1, 1), Stale([1])])
def test_an_engine_introduces_itself_first_and_by_its_own_number(first):
    async def scenario(bench):
        loading = asyncio.create_task(bench.router.load(lambda number, owner: LOAD))
        await bench.say(first)
        await bench.until(lambda: bench.process.killed)
        assert bench.bad == 1
        with pytest.raises(Exception, match="failed to start: bad message"):
            await loading

    run(scenario)


def test_strangers_are_counted_and_late_words_are_not():
    async def scenario(bench):
        await bench.ready()
        for address in ("mixed-0/7", "decode-3/1", "\xff", "mixed-0/-1"):
            stranger = bench.connect(address)
            await bench.say(Hello(1), socket=stranger)
            before = bench.bad
            await bench.until(lambda before=before: bench.bad == before + 1)
            stranger.close()
        await bench.socket.send_multipart([b"", b""])
        bench.said += 1
        await bench.until(lambda: len(bench.host.started) == 2)
        assert bench.bad == 5
        await bench.say(Failed("late"))
        await bench.heard()
        assert bench.bad == 5

    run(scenario)


def test_a_frame_that_is_too_large_cuts_the_link(monkeypatch):
    monkeypatch.setattr(links_module, "MAX_FRAME", 1000)

    async def scenario(bench):
        await bench.ready()
        monitor = bench.socket.get_monitor_socket(zmq.EVENT_DISCONNECTED)
        await bench.say(bytes(1001))
        await asyncio.wait_for(monitor.recv_multipart(), PATIENCE)
        # As the engine does upon that.
        bench.process.heard(LINK_LOST)
        assert bench.bad == 1
        assert "over 64 MiB" in bench.router.problems()[0]

    run(scenario)


def test_an_engine_says_itself_what_is_wrong_in_a_line():
    async def scenario(bench):
        await bench.ready()
        await bench.say(Failed("no\nmemory" + "!" * 5000))
        await bench.heard()
        bench.process.heard(1)
        [problem] = bench.router.problems()
        assert problem.startswith("engine mixed-0 is restarting: no memory!!!")
        assert len(problem) < 600
        assert bench.bad == 0

    run(scenario)


def test_metrics_show_pages_by_state_and_the_oldest_lease():
    async def scenario(bench):
        await bench.ready()
        registry = bench.router.metrics.registry

        def pages():
            states = ("free", "cached", "leased")
            return [registry.get_sample_value("twinfer_kv_pages", {"state": state}) for state in states]

        def oldest():
            return registry.get_sample_value("twinfer_kv_oldest_lease_seconds")

        assert (pages(), oldest()) == ([8, 0, 0], 0)
        ticket = await bench.decoding()
        await asyncio.sleep(0.01)
        assert pages() == [6, 0, 2]
        assert 0.01 <= oldest() < 60
        await bench.say(step([ticket.request.id], [9], [1], batch=1))
        await bench.until(lambda: ticket.finish_reason == "stop")
        assert (sum(pages()), pages()[2], oldest()) == (8, 0, 0)

    run(scenario)


def test_a_flaw_in_the_router_ends_requests_instead_of_leaving_them():
    async def scenario(bench):
        await bench.ready()
        ticket = await bench.decoding()
        bench.core.memory.ledger._free.pop()
        await bench.say(step([ticket.request.id], [8], batch=1))
        await bench.until(lambda: ticket.finish_reason == "error")
        assert "broke down" in ticket.request.error

    with pytest.raises(AssertionError, match="8 pages"):
        run(scenario)
