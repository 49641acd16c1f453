"""`twinfer chat`: a chat in the terminal, or of the lines of a pipe."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from contextlib import aclosing

import msgspec
from rich.console import Console
from rich.markup import escape

from twinfer import serving
from twinfer.api import prompts
from twinfer.api.requests import Message
from twinfer.api.service import Service
from twinfer.cli import local
from twinfer.cli.notices import notice
from twinfer.config import Config
from twinfer.errors import RequestError, UnavailableError
from twinfer.sampling import SamplingParams

HELP = "/clear starts anew, /exit or Ctrl-D leaves, Ctrl-C stops an answer"


class Session(msgspec.Struct):
    """One conversation. `opening` is what /clear goes back to."""

    service: Service
    console: Console
    params: SamplingParams
    opening: list[Message]
    messages: list[Message]
    running: local.Running | None = None


def chat(config: Config, system: str | None, params: SamplingParams) -> None:
    """Chat until the input ends.

    Raises:
        TwinferError: the model or an engine does not start, or an engine is lost.
    """
    asyncio.run(_chat(config, system, params))


async def _chat(config: Config, system: str | None, params: SamplingParams) -> None:
    console = Console(highlight=False)
    opening = [Message("system", system)] if system else []
    async with serving.open(config, notice) as service:
        session = Session(service, console, params, opening, list(opening))
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, _interrupt, session)
        if _interactive():
            console.print(f"[bold]{escape(service.model_id)}[/]  [dim]{HELP}[/]\n")
        while (line := await asyncio.to_thread(_read, "› ")) is not None:
            line = line.strip()
            if line == "/exit":
                break
            if line:
                await _take(session, line)


async def _take(session: Session, line: str) -> None:
    """Act on one line of input."""
    if line == "/clear":
        session.messages = list(session.opening)
        session.console.print("[dim]a new conversation[/]\n")
    elif line.startswith("/"):
        session.console.print(f"[dim]{HELP}[/]\n")
    else:
        session.messages.append(Message("user", line))
        try:
            session.messages.append(Message("assistant", await _answer(session)))
        except RequestError as error:
            session.messages.pop()
            session.console.print(f"[red]{escape(str(error))}[/]  [dim]/clear starts anew[/]\n")


async def _answer(session: Session) -> str:
    """Write the answer to the messages so far, and return it."""
    service = session.service
    began = time.monotonic()
    first = 0.0
    text = await prompts.render(service, session.messages)
    tokens = await prompts.tokenize(service.tokenizer, text, special=True)
    session.running = running = local.start(service, tokens, session.params)
    said: list[str] = []
    try:
        async with aclosing(local.texts(service, running)) as coming:
            async for piece in coming:
                first = first or time.monotonic()
                said.append(piece)
                sys.stdout.write(piece)
                sys.stdout.flush()
    except UnavailableError:
        if running.ticket.finish_reason != "cancelled":
            raise
    finally:
        session.running = None
        sys.stdout.write("\n")
    if _interactive():
        _print_speed(session.console, running, began, first, time.monotonic())
    return "".join(said)


def _print_speed(console: Console, running: local.Running, began: float, first: float, ended: float) -> None:
    notes = [f"{running.tokens} tokens"]
    if first:
        notes.append(f"first after {(first - began) * 1000:.0f} ms")
    if running.tokens > 1 and ended > first:
        notes.append(f"then {(running.tokens - 1) / (ended - first):.0f} a second")
    if running.finish != "stop":
        notes.append("at the limit of its length" if running.finish else "stopped")
    console.print(f"[dim]{' · '.join(notes)}[/]\n")


def _interrupt(session: Session) -> None:
    """Ctrl-C: stop the answer under way, or say how to leave."""
    if session.running is not None:
        session.running.ticket.cancel()
    elif _interactive():
        session.console.print(f"\n[dim]{HELP}[/]\n› ", end="")


def _read(prompt: str) -> str | None:
    """A line of input, or None at its end."""
    try:
        if not _interactive():
            return sys.stdin.readline() or None
        import readline  # noqa: F401  # pyright: ignore[reportUnusedImport]

        return input(prompt)
    except EOFError:
        print()
        return None


def _interactive() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()
