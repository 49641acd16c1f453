"""`run` with the fake behind it: a program for the tests to send signals to."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from twinfer.api import listen
from twinfer.api.access import Access
from twinfer.api.limits import Limits
from twinfer.api.run import run

from .http_fake import FakeService


@asynccontextmanager
async def opening() -> AsyncIterator[FakeService]:
    if sys.argv[1] == "interrupted":
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.sleep(30)
    service = FakeService()
    pause = {"short": 0.2, "middling": 1.0}.get(sys.argv[1], 60.0)
    service.router.script = lambda generation: [[97], pause, [98, 256]]
    yield service
    print("closed", flush=True)


def main() -> None:
    bound = listen.bind("127.0.0.1", 0)
    run(
        opening,
        bound,
        lambda service: print(listen.url(bound), flush=True),
        limits=Limits(shutdown_timeout=0.5 if sys.argv[1] == "impatient" else 30),
        access=Access(),
    )


if __name__ == "__main__":
    main()
