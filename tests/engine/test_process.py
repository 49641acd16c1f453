"""A real engine process that is told nonsense: it says so and ends, with an exit code that tells."""

import os
import subprocess
import sys

import msgspec
import numpy as np
import pytest
import zmq

from tests.examples import PREFILL
from tests.processes import PATIENCE
from tests.tiny import write_gguf
from twinfer.kv.board import Board, board_bytes
from twinfer.kv.layout import Layout
from twinfer.kv.region import SharedRegion, map_region
from twinfer.messages import (
    LINK_LOST,
    MAX_FRAME,
    Cancel,
    Failed,
    FromEngine,
    Hello,
    Load,
    Place,
    Pool,
    Ready,
    Region,
    Released,
    Step,
    Usage,
    Weights,
)
from twinfer.model.load import load
from twinfer.model.pack import pack

DECODER = msgspec.msgpack.Decoder(FromEngine)
PAGES = 4
GOOD = msgspec.structs.replace(PREFILL, stamps=[0, 0])


class Engine:
    """The process, and the router's end of its link."""

    def __init__(self, folder, regions=()):
        self.context = zmq.Context()
        self.socket = self.context.socket(zmq.ROUTER)
        self.socket.linger = 0
        self.socket.bind(f"ipc://{folder}/router")
        core = str(min(os.sched_getaffinity(0)))
        command = [
            sys.executable,
            "-m",
            "twinfer.engine",
            f"ipc://{folder}/router",
            "e/1",
            core,
            str(os.getpid()),
        ]
        self.process = subprocess.Popen(command, pass_fds=[region.fd for region in regions])

    def send(self, *messages):
        for message in messages:
            frame = message if isinstance(message, bytes) else msgspec.msgpack.encode(message)
            self.socket.send_multipart([b"e/1", frame])

    def hear(self):
        assert self.socket.poll(1000 * PATIENCE)
        return DECODER.decode(self.socket.recv_multipart()[1])

    def close(self):
        self.process.kill()
        self.process.wait()
        self.socket.close()
        self.context.term()


@pytest.fixture
def start(tmp_path):
    started = []

    def begin(regions=()):
        started.append(Engine(tmp_path, regions))
        assert started[-1].hear() == Hello(started[-1].process.pid)
        return started[-1]

    yield begin
    for engine in started:
        engine.close()


@pytest.fixture
def model(tmp_path):
    """The regions of a tiny model, its pool and its board, and the Load that names them."""
    checkpoint = load(write_gguf(tmp_path / "m.gguf"))
    d, plan = checkpoint.description, pack(checkpoint, "f32")
    kv = Layout(d.layers, d.kv_heads, d.head_dim, "f32")
    sizes = (plan.nbytes, PAGES * kv.page_bytes, board_bytes(1, PAGES))
    regions = [SharedRegion("test", size) for size in sizes]
    with map_region(regions[0].fd, plan.nbytes, writable=True) as mapped:
        plan.write(np.frombuffer(mapped, np.uint8))
    Board(map_region(regions[2].fd, sizes[2], writable=True), 1).slot(0).open(1, 0)
    weights, pool, board = (Region(region.fd, region.nbytes) for region in regions)
    message = Load(
        Weights(weights, plan.layout), None, Pool(pool, 16, "f32"), Place(board, 1, 0, 1, []), 64, 4, None
    )
    yield regions, message
    for region in regions:
        region.close()


@pytest.mark.parametrize("frame", [b"\xc1", b"", b"\x92\xa6cancel\x01", GOOD, b"\x91" * 5000])
def test_the_first_message_must_be_a_load(start, frame):
    engine = start()
    engine.send(frame)
    failed = engine.hear()
    assert isinstance(failed, Failed)
    assert failed.message.startswith("bad message: ")
    assert engine.process.wait(PATIENCE) == 1


def test_a_frame_that_is_too_large_cuts_the_link_and_ends_the_engine(start):
    engine = start()
    engine.send(bytes(MAX_FRAME + 1))
    assert engine.process.wait(PATIENCE) == LINK_LOST


def test_an_engine_without_its_router_ends(start):
    engine = start()
    engine.socket.close()
    assert engine.process.wait(PATIENCE) == LINK_LOST


def test_good_messages_are_served_until_a_bad_one_comes(start, model):
    regions, message = model
    engine = start(regions)
    engine.send(message)
    assert isinstance(engine.hear(), Ready)
    engine.send(GOOD)
    step = engine.hear()
    assert isinstance(step, Step)
    assert step.requests == [1]
    usage = engine.hear()  # It is idle.
    assert isinstance(usage, Usage)
    [seconds] = usage.cores
    assert seconds > 0
    engine.send(Cancel(1, 1))
    assert engine.hear() == Released(1, 1)
    engine.send(msgspec.structs.replace(GOOD, pages=[0, PAGES]))
    assert engine.hear() == Failed(f"bad message: a page that is none of the pool's {PAGES}")
    assert engine.process.wait(PATIENCE) == 1


def test_a_layout_outside_the_weights_is_refused(start, model):
    regions, message = model
    message.prefill.layout["norm"] = 1 << 40
    engine = start(regions)
    engine.send(message)
    assert engine.hear() == Failed("the layout points outside the weights")
    assert engine.process.wait(PATIENCE) == 1
