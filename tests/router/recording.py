"""What happened to a core, written down, and done again to another.

A recording is lines of JSON, each an event with its time; `replay` gives them to a fresh core, whose
messages to the engines must then be the same, one by one.
"""

from typing import Any

import msgspec

from twinfer.messages import Role, Step, ToEngine
from twinfer.router.core import Core
from twinfer.router.generation import Generation
from twinfer.router.request import Request
from twinfer.timeline import Timeline


class Asked(msgspec.Struct):
    """What is known of a request when it comes."""

    id: int
    generation: Generation
    max_length: int
    slo_ttft: float | None


class Event(msgspec.Struct):
    """A method of the core, its arguments but the time, and the time."""

    name: str
    args: msgspec.Raw
    now: float


ARGS: dict[str, Any] = {
    "submit": tuple[Asked],
    "cancel": tuple[int, str],
    "fail_all": tuple[str],
    "on_step": tuple[str, Step],
    "on_released": tuple[int, int],
    "on_stale": tuple[str, list[int]],
    "add_engine": tuple[str, Role, list[tuple[int, bool]]],
    "set_role": tuple[str, Role],
    "set_draining": tuple[str, bool],
    "lose_engine": tuple[str, dict[int, int], int],
}

Sent = list[tuple[str, bytes]]


class Recorder(Core):
    """A core that writes down its events in `lines`, and what it sends in `sent`."""

    def __init__(self, memory: Any, **options: Any) -> None:
        super().__init__(memory, **options)
        self.options = options
        self.lines: list[bytes] = []
        self.sent: Sent = []

    def _send(self, engine: str, message: ToEngine) -> None:
        super()._send(engine, message)
        self.sent.append((engine, msgspec.msgpack.encode(message)))

    def _note(self, name: str, args: tuple[Any, ...], now: float) -> None:
        event = Event(name, msgspec.Raw(msgspec.json.encode(args)), now)
        self.lines.append(msgspec.json.encode(event))

    def submit(self, request: Request, now: float) -> None:
        asked = Asked(request.id, request.generation, request.max_length, request.slo_ttft)
        self._note("submit", (asked,), now)
        super().submit(request, now)

    def cancel(self, number: int, now: float, reason: str = "cancelled") -> None:
        self._note("cancel", (number, reason), now)
        super().cancel(number, now, reason)


def _recorded(name: str) -> Any:
    def act(self: Recorder, *args: Any) -> None:
        self._note(name, args[:-1], args[-1])
        getattr(Core, name)(self, *args)

    return act


for _name in ARGS.keys() - {"submit", "cancel"}:
    setattr(Recorder, _name, _recorded(_name))


def replay(lines: list[bytes], core: Core) -> Sent:
    """Let it all happen to `core`; what it sends."""
    sent: Sent = []
    for line in lines:
        event = msgspec.json.decode(line, type=Event)
        args = msgspec.json.decode(event.args, type=ARGS[event.name])
        if event.name == "submit":
            core.submit(_request(args[0]), event.now)
        elif event.name == "cancel":
            core.cancel(args[0], event.now, args[1])
        else:
            getattr(core, event.name)(*args, event.now)
        sent += [(engine, msgspec.msgpack.encode(message)) for engine, message in core.outbox]
        core.outbox = []
    return sent


def _request(asked: Asked) -> Request:
    return Request(
        id=asked.id,
        generation=asked.generation,
        max_length=asked.max_length,
        timeline=Timeline(),
        on_tokens=lambda token: None,
        on_end=lambda: None,
        tokens=list(asked.generation.prompt),
        slo_ttft=asked.slo_ttft,
    )
