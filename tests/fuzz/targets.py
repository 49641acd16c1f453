"""What is fuzzed: functions of bytes that must end without any error but those that are meant."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import functools
import math
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import httpx
import msgspec

from tests import tiny
from tests.api.http_fake import FakeService
from tests.api.replies import ROUTES, check_reply
from tests.refusals import refusal
from twinfer.api.access import Access
from twinfer.api.app import build_app
from twinfer.api.limits import Limits
from twinfer.engine.validation import Bounds, check, check_load
from twinfer.errors import BadMessageError, ModelError, RequestError
from twinfer.messages import FromEngine, Hello, Load, Released, Stale, Step, ToEngine, Usage, decode
from twinfer.model.checkpoint import Checkpoint
from twinfer.model.load import load
from twinfer.model.template import ChatTemplate, load_template
from twinfer.model.tokenizer import load_tokenizer
from twinfer.router.engines import EngineView
from twinfer.router.validation import check_hello, check_released, check_stale, check_step, check_usage

FOLDER_FILES = (
    "config.json",
    "model.safetensors",
    "tokenizer.json",
    "tokenizer_config.json",
    "generation_config.json",
    "model.safetensors.index.json",
    "chat_template.jinja",
)
FOLDER_SIZES = {"layers": 1, "hidden": 8, "heads": 1, "kv_heads": 1, "ffn": 8, "dtype": "F16"}
MOST_FLOATS = 1 << 16
TEXT = "hello <|im_start|>\n1234 안녕"


def fuzz_gguf(data: bytes) -> None:
    """A GGUF file: header, tensors, tokeniser and template."""
    fd = os.memfd_create("fuzz")
    try:
        os.write(fd, data)
        use_model(Path(f"/proc/self/fd/{fd}"))
    finally:
        os.close(fd)


def fuzz_folder(data: bytes) -> None:
    """A Hugging Face folder in which one file, chosen by the first byte, is replaced by the rest."""
    if not data:
        return
    folder = good_folder()
    file = folder / FOLDER_FILES[data[0] % len(FOLDER_FILES)]
    single = folder / "model.safetensors"
    before = file.read_bytes() if file.exists() else None
    # Replaced rather than overwritten: what was mapped before must not change.
    file.unlink(missing_ok=True)
    file.write_bytes(data[1:])
    if file.name.endswith(".index.json"):
        single.rename(folder / "shard.safetensors")
    try:
        use_model(folder)
    finally:
        file.unlink()
        if before is not None:
            file.write_bytes(before)
        if file.name.endswith(".index.json"):
            (folder / "shard.safetensors").rename(single)


def fuzz_template(data: bytes) -> None:
    """By the first byte: messages for a good template, a template that is parsed, or one that runs."""
    how, text = data[:1], data[1:].decode(errors="replace")
    if how in (b"M", b"m"):
        with contextlib.suppress(RequestError, msgspec.DecodeError):
            messages = msgspec.json.decode(text.encode(errors="replace"), type=list[dict[str, object]])
            assert len(good_template().render(messages)) <= 1 << 24
        return
    with contextlib.suppress(ModelError):
        template = ChatTemplate(text)
        if how == b"R":
            with contextlib.suppress(RequestError):
                template.render([{"role": "user", "content": "hello"}])
            template.close()


def fuzz_messages(data: bytes) -> None:
    """A frame to the router (first byte even) or to an engine (odd), decoded and checked."""
    to_router = bool(data) and data[0] % 2 == 0
    with contextlib.suppress(BadMessageError):
        if to_router:
            hear_engine(decode(FROM_ENGINE, data[1:]))
        else:
            hear_router(decode(TO_ENGINE, data[1:]))


def fuzz_bodies(data: bytes) -> None:
    """The body of a request over HTTP, to the route that the first byte chooses."""
    if data:
        check_reply(post(ROUTES[data[0] % len(ROUTES)], data[1:]))


TARGETS: dict[str, Callable[[bytes], None]] = {
    "gguf": fuzz_gguf,
    "folder": fuzz_folder,
    "template": fuzz_template,
    "messages": fuzz_messages,
    "bodies": fuzz_bodies,
}

FROM_ENGINE = msgspec.msgpack.Decoder(FromEngine)
TO_ENGINE = msgspec.msgpack.Decoder(ToEngine)


def use_model(path: Path) -> None:
    """Load a model and use what was loaded, but for its computation; or have it refused in one line."""
    refusal(ModelError, lambda: _use(load(path)))


def _use(checkpoint: Checkpoint) -> None:
    tokenizer = load_tokenizer(checkpoint)
    load_template(checkpoint)
    for tensor in checkpoint.tensors.values():
        if math.prod(tensor.shape) <= MOST_FLOATS:
            assert tensor.floats().shape == tensor.shape
    ids = tokenizer.encode(TEXT)
    assert all(0 <= token < checkpoint.description.vocab for token in ids)
    tokenizer.decode(ids)


def hear_engine(message: FromEngine) -> None:
    """As the router does, for an engine that holds nothing."""
    view = EngineView("e", "mixed", cores=[(0, False), (1, True)])
    match message:
        case Step():
            check_step(message, view, 100, 10.0)
            view.count(message, helped=False)
        case Usage():
            check_usage(message, view, 10.0)
        case Stale():
            check_stale(message, view)
        case Released():
            check_released(message, view, None, 9)
        case Hello():
            check_hello(message, 1)
        case _:
            pass


def hear_router(message: ToEngine) -> None:
    """As an engine does that holds nothing."""
    if isinstance(message, Load):
        check_load(message)
    else:
        check(message, Bounds(100, 8, 16), lambda request: None)


@functools.cache
def good_folder() -> Path:
    """A tiny model in a folder of this process, to be damaged."""
    made = tempfile.TemporaryDirectory(prefix="twinfer-fuzz-")
    atexit.register(made.cleanup)
    return tiny.write_folder(Path(made.name) / "model", **FOLDER_SIZES)


@functools.cache
def good_template() -> ChatTemplate:
    """The tiny model's template, in its process."""
    template = ChatTemplate(tiny.TEMPLATE)
    atexit.register(template.close)
    return template


def post(route: str, body: bytes) -> httpx.Response:
    """The answer of the whole application, with a fake behind it and no socket before it."""
    service = FakeService()

    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(build_app(service, Limits(), Access()))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return await client.post(route, content=body)

    return asyncio.run(ask())
