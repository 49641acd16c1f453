"""Every route there is."""

from __future__ import annotations

import time

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import Route

from twinfer.api import about, admin, failures, generate, openapi, text
from twinfer.api.access import Access
from twinfer.api.body import Held
from twinfer.api.clients import Clients
from twinfer.api.counters import Counting, Responses
from twinfer.api.gate import Gate
from twinfer.api.limits import Limits
from twinfer.api.live import Live
from twinfer.api.service import Service
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
    Route("/openapi.json", openapi.openapi),
    Route("/admin/engines", admin.engines),
    Route("/admin/engines/{engine}/drain", admin.drain, methods=["POST"]),
    Route("/admin/engines/{engine}/resume", admin.resume, methods=["POST"]),
    Route("/admin/engines/{engine}/role", admin.set_role, methods=["POST"]),
]

BODIES_AT_ONCE = 16
"""Bodies of the largest size that may be in memory while they are read."""


def build_app(service: Service, limits: Limits, access: Access) -> Starlette:
    """The ASGI application that serves `service`.

    Its state: `service`, `limits`, `access`; `live`, the answers being written; `clients` and `held`,
    which count what is under way; `responses`, which counts what was sent; `stopping`, whether no more
    requests are taken; `started`, in seconds of Unix time.
    """
    responses = Responses(service.router.metrics.registry)
    app = Starlette(
        routes=ROUTES,
        middleware=[
            Middleware(Counting, responses=responses),
            *_cors(access),
            Middleware(failures.Guard),
            Middleware(Gate, access=access),
        ],
        exception_handlers={
            TwinferError: failures.respond,
            HTTPException: failures.respond,
        },
    )
    app.router.redirect_slashes = False
    app.state.service = service
    app.state.limits = limits
    app.state.access = access
    app.state.live = Live()
    app.state.clients = Clients(limits.max_streams)
    app.state.held = Held(BODIES_AT_ONCE * limits.max_body_size)
    app.state.responses = responses
    app.state.stopping = False
    app.state.started = int(time.time())
    return app


def _cors(access: Access) -> list[Middleware]:
    """Lets pages of the allowed origins read answers; browsers keep them from all others."""
    if not access.origins:
        return []
    origins = sorted(access.origins)
    return [Middleware(CORSMiddleware, allow_origins=origins, allow_methods=["*"], allow_headers=["*"])]
