"""What crosses between router and engines: small typed structs, MessagePack on the wire.

The router sends `Load`, `Prefill`, `Decode`, `Grant`, `Cancel`; an engine answers with
`Hello`, `Ready`, `Step`, `Usage`, `Released`, `Stale`, `Failed`. No KV and no text ever crosses here.
Nothing asks an engine to end: it holds nothing that matters, so its process is killed.

A frame is at most `MAX_FRAME` bytes. Decoding checks types; whether a message can be true is checked by
`router/validation.py` and `engine/validation.py`.

Lengths and positions count tokens. Times are seconds of the host's monotonic clock, which every
process on a host shares.
"""

from __future__ import annotations

import math
from enum import IntEnum
from typing import Any, Literal, TypeVar

import msgspec

from twinfer.errors import BadMessageError, one_line

MAX_FRAME = 64 << 20
LINK_LOST = 3
"""An engine's exit code when its link to the router was cut, as happens after a frame that is too large."""

Role = Literal["prefill", "decode", "mixed"]


class Finish(IntEnum):
    """Why an engine let a request go; `NONE` while it goes on."""

    NONE = 0
    STOP = 1
    LENGTH = 2


class Sampling(msgspec.Struct, frozen=True, array_like=True):
    """How to pick a token. `temperature` 0 is greedy; `top_k` 0, `top_p` 1 and `min_p` 0 are off."""

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    seed: int = 0


class Task(msgspec.Struct, frozen=True, array_like=True):
    """What an engine must know of a request besides its tokens and pages.

    Generation ends at a token of `stop_tokens` or when prompt and answer reach `max_length` tokens.
    `arrived`, `priority` and `due`, when its first token should be there, decide whose prompt comes first.
    """

    sampling: Sampling
    stop_tokens: tuple[int, ...]
    max_length: int
    arrived: float = 0.0
    priority: int = 0
    due: float = math.inf


class Region(msgspec.Struct, frozen=True, array_like=True):
    """Shared memory that the engine inherited as an open file descriptor; `nbytes` long."""

    fd: int
    nbytes: int


class Weights(msgspec.Struct, frozen=True, array_like=True):
    """A model packed in one precision. `layout` says where each array lies; only `model` reads it."""

    region: Region
    layout: dict[str, Any]


class Pool(msgspec.Struct, frozen=True, array_like=True):
    """The KV pool: pages of `page_tokens` tokens whose elements are `dtype`, one of `KV_DTYPES`."""

    region: Region
    page_tokens: int
    dtype: str


class Place(msgspec.Struct, frozen=True, array_like=True):
    """The board in shared memory, with `engines` slots, and which of them is the engine's as `owner`.

    `lenders` are cores of other engines with their slots: they may be used while their slot says so.
    """

    region: Region
    engines: int
    slot: int
    owner: int
    lenders: list[tuple[int, int]]


class Load(msgspec.Struct, tag="load", array_like=True):
    """Build the model over shared memory and answer `Ready`.

    `prefill` and `decode` are the weights of the phases; None for `decode` means the same as prefill.
    `prefill_chunk` and `max_batch_size` bound a step, and `slo_tpot` sets decode's pace, as in `Config`.
    """

    prefill: Weights
    decode: Weights | None
    pool: Pool
    place: Place
    prefill_chunk: int
    max_batch_size: int
    slo_tpot: float | None


class Prefill(msgspec.Struct, tag="prefill", array_like=True):
    """Compute `tokens` at positions from `computed` on, into `pages`, and sample the next token.

    `pages` is the whole page table, from position 0; `stamps` are those under which it is leased.
    A step carries at most `chunk` of the tokens; 0 for no bound but the engine's own.
    """

    request: int
    tokens: list[int]
    computed: int
    pages: list[int]
    stamps: list[int]
    task: Task
    chunk: int = 0


class Decode(msgspec.Struct, tag="decode", array_like=True):
    """Go on after `tokens`, of which the last was sampled last, at positions from `computed` on.

    The KV of the tokens before them is in `pages`. There is one token, but for a request whose KV was
    given up and whose phases differ in precision: then all tokens of its answer are computed again.
    """

    request: int
    tokens: list[int]
    computed: int
    pages: list[int]
    stamps: list[int]
    task: Task


class Grant(msgspec.Struct, tag="grant", array_like=True):
    """More pages for a running request, appended to its page table."""

    request: int
    pages: list[int]
    stamps: list[int]


class Cancel(msgspec.Struct, tag="cancel", array_like=True):
    """Let a request go. The engine answers `Released` once it no longer touches the pages.

    `placement` counts how often the request was given to an engine, so that an answer to an earlier
    Cancel is not taken for one to this.
    """

    request: int
    placement: int


ToEngine = Load | Prefill | Decode | Grant | Cancel

Message = TypeVar("Message")


def decode(decoder: msgspec.msgpack.Decoder[Message], frame: bytes) -> Message:
    """The message in a frame.

    Raises:
        BadMessageError: it is no message of the decoder's kind.
    """
    try:
        return decoder.decode(frame)
    except (msgspec.MsgspecError, RecursionError) as error:
        reason = f"a frame of {len(frame)} bytes is not a message: {one_line(error)}"
        raise BadMessageError(f"bad message: {reason}") from None


class Hello(msgspec.Struct, tag="hello", array_like=True):
    """An engine process is up and waits for `Load`."""

    pid: int


class Ready(msgspec.Struct, tag="ready", array_like=True):
    """The model is built; the engine takes requests."""

    isa: str


class Step(msgspec.Struct, tag="step", array_like=True):
    """One step's outcome: the new token of every request that got one, and how far prompts came.

    `requests[i]` got `tokens[i]`; `finishes[i]` says whether the engine has let it go with that.
    `chunks` holds `(request, computed)` for prompts that are not done yet. `prompt_tokens`,
    `batch` and `context` are what the step carried: prompt tokens, requests in decode, and the tokens before
    theirs that these read together.
    """

    requests: list[int]
    tokens: list[int]
    finishes: list[int]
    chunks: list[tuple[int, int]]
    began: float
    ended: float
    prompt_tokens: int
    batch: int
    context: int


class Usage(msgspec.Struct, tag="usage", array_like=True):
    """How an engine's cores were used since it was built, sent a few times a second while it computes.

    `cores` are the seconds of processor time that its threads took on each core: its own, then those it
    may borrow, as in `Load`. `paced_steps` steps waited for their time while its own cores were lent,
    for `paced_seconds` in all; they began `late_seconds` later than that in all, `latest` at most.
    """

    cores: list[float]
    paced_steps: int
    paced_seconds: float
    late_seconds: float
    latest: float


class Released(msgspec.Struct, tag="released", array_like=True):
    """The engine no longer touches the request's pages; the answer to a `Cancel`."""

    request: int
    placement: int


class Stale(msgspec.Struct, tag="stale", array_like=True):
    """Pages of these requests had other content than they were leased with; they were let go."""

    requests: list[int]


class Failed(msgspec.Struct, tag="failed", array_like=True):
    """The engine cannot go on; `message` is one line for a person."""

    message: str


FromEngine = Hello | Ready | Step | Usage | Released | Stale | Failed
