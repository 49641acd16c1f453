"""Every route there is."""

from __future__ import annotations

import time

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.routing import Route

from twinfer.api import about, failures, generate, text
from twinfer.api.service import Service, Ticket
from twinfer.errors import TwinferError

ROUTES = [
    Route("/v1/completions", generate.completions, methods=["POST"]),
    Route("/v1/chat/completions", generate.chat_completions, methods=["POST"]),
    Route("/v1/models", about.models),
    Route("/v1/models/{model:path}", about.model),
    Route("/tokenize", text.tokenize, methods=["POST"]),
    Route("/detokenize", text.detokenize, methods=["POST"]),
    Route("/health", about.health),
    Route("/ready", about.ready),
    Route("/metrics", about.metrics),
    Route("/version", about.show_version),
    Route("/admin/engines", about.engines),
]


def build_app(service: Service) -> Starlette:
    """The ASGI application that serves `service`.

    `app.state.live` holds the tickets of all answers being written.
    """
    app = Starlette(
        routes=ROUTES,
        middleware=[Middleware(failures.Guard)],
        exception_handlers={
            TwinferError: failures.respond,
            HTTPException: failures.respond,
        },
    )
    app.router.redirect_slashes = False
    app.state.service = service
    app.state.live = set[Ticket]()
    app.state.started = int(time.time())
    return app
