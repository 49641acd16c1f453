"""What an engine decided and from what, written down in its process, and decided again.

An engine started as `python -m tests.engine.recording` is a real one that also writes into the folder named
by `TWINFER_RECORDING`: all that it was told, read off its clock and its board, had computed, and answered.
"""

import os
import sys
import time
from pathlib import Path

import msgspec

from twinfer.engine import __main__ as program
from twinfer.engine import engine
from twinfer.engine.engine import Engine
from twinfer.messages import ToEngine

FOLDER = "TWINFER_RECORDING"


class Options(msgspec.Struct):
    """How the engine was made; `alike` if both phases have one decoder."""

    alike: bool
    page_tokens: int
    chunk: int
    max_batch: int
    slo_tpot: float | None


class Event(msgspec.Struct):
    """A method of the engine, with its argument, if it has one, and what it answered.

    Meanwhile it read times off its `clock`, heard in `waits` whether another engine has prompts, in `stale`
    which requests have lost a page, and from the decoders `tokens`; and it `asked` the board and the decoders
    for these steps and batches.
    """

    name: str
    message: ToEngine | None = None
    outcome: bytes = b""
    clock: list[float] = []
    waits: list[bool] = []
    stale: list[list[int]] = []
    tokens: list[list[int]] = []
    asked: list[bytes] = []


EVENTS = msgspec.msgpack.Decoder(Event)


class World:
    """All that an engine learns from, but for its messages; the `event` under way holds it."""

    def __init__(self):
        self.event = Event("")

    def asks(self, *what):
        arrays = [each.tolist() if hasattr(each, "tolist") else each for each in what]
        self.event.asked.append(msgspec.msgpack.encode(arrays))


class RealWorld(World):
    """Passes on what a real clock, board and decoder say, and notes it."""

    def __init__(self, watch):
        super().__init__()
        self._watch = watch

    def clock(self):
        self.event.clock.append(time.monotonic())
        return self.event.clock[-1]

    def prompts_wait(self):
        self.event.waits.append(self._watch.prompts_wait())
        return self.event.waits[-1]

    def stale(self, sequences):
        lost = self._watch.stale(sequences)
        self.event.stale.append([sequence.request for sequence in lost])
        return lost

    def begin(self, tokens, *, prompts):
        self.asks(tokens, prompts)
        self._watch.begin(tokens, prompts=prompts)

    def end(self):
        self._watch.end()

    def forward(self, decoder, batch):
        self.asks(*batch)
        sampled = decoder.forward(*batch)
        self.event.tokens.append(sampled.tolist())
        return sampled


class PaperWorld(World):
    """Says what a recorded event says."""

    def clock(self):
        return self.event.clock.pop(0)

    def prompts_wait(self):
        return self.event.waits.pop(0)

    def stale(self, sequences):
        lost = self.event.stale.pop(0)
        return [sequence for sequence in sequences if sequence.request in lost]

    def begin(self, tokens, *, prompts):
        self.asks(tokens, prompts)

    def end(self):
        pass

    def forward(self, decoder, batch):
        self.asks(*batch)
        return self.event.tokens.pop(0)


class Decoder:
    """A phase's decoder in such a world."""

    def __init__(self, world, decoder=None):
        self._world, self._decoder = world, decoder

    def forward(self, *batch):
        return self._world.forward(self._decoder, batch)


class Recorder(Engine):
    """An engine that writes down its events, each after its length."""

    def __init__(self, prefill, decode, watch, **options):
        self._world = RealWorld(watch)
        self._file = (Path(os.environ[FOLDER]) / sys.argv[2].replace("/", "-")).open("wb")
        self._write(Options(prefill is decode, **options))
        noted = Decoder(self._world, prefill)
        other = noted if prefill is decode else Decoder(self._world, decode)
        super().__init__(noted, other, self._world, clock=self._world.clock, **options)

    def _write(self, what):
        frame = msgspec.msgpack.encode(what)
        self._file.write(len(frame).to_bytes(4, "little") + frame)
        self._file.flush()

    def _recorded(self, name, *args):
        self._world.event = event = Event(name, *args)
        outcome = getattr(Engine, name)(self, *args)
        event.outcome = msgspec.msgpack.encode(outcome)
        self._write(event)
        return outcome

    def take(self, message):
        return self._recorded("take", message)

    def due(self):
        return self._recorded("due")

    def step(self):
        return self._recorded("step")


def read(path):
    """How an engine was made, and its events; a last one that its end cut short is left out."""
    first, *events = _frames(path.read_bytes())
    return msgspec.msgpack.decode(first, type=Options), [EVENTS.decode(event) for event in events]


def _frames(data):
    at = 0
    while at < len(data) and (end := at + 4 + int.from_bytes(data[at : at + 4], "little")) <= len(data):
        yield data[at + 4 : end]
        at = end


def replay(options, events):
    """Let it all happen to another engine: what it answers, and asks its decoders and its board for."""
    world = PaperWorld()
    prefill = Decoder(world)
    made = msgspec.structs.asdict(options)
    decode = prefill if made.pop("alike") else Decoder(world)
    again = Engine(prefill, decode, world, clock=world.clock, **made)
    for event in events:
        world.event = msgspec.msgpack.decode(msgspec.msgpack.encode(event), type=Event)
        world.event.asked = []
        args = () if event.message is None else (event.message,)
        outcome = msgspec.msgpack.encode(getattr(again, event.name)(*args))
        left = world.event
        assert [left.clock, left.waits, left.stale, left.tokens] == [[]] * 4  # it has read as much as then
        yield outcome, left.asked


if __name__ == "__main__":
    engine.Engine = Recorder
    sys.exit(program.main())
