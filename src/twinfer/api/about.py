"""What the server says of itself: models, health, readiness, metrics, version."""

from __future__ import annotations

import msgspec
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.requests import Request
from starlette.responses import Response

from twinfer import __version__
from twinfer.api import settings
from twinfer.api.service import Service


async def models(request: Request) -> Response:
    """GET /v1/models: the one model there is."""
    return _json({"object": "list", "data": [_card(request)]})


async def model(request: Request) -> Response:
    """GET /v1/models/{id}."""
    settings.check_model(_service(request), request.path_params["model"])
    return _json(_card(request))


async def health(request: Request) -> Response:
    """GET /health: the process is alive."""
    return _json({"status": "ok"})


async def ready(request: Request) -> Response:
    """GET /ready: 200 when requests are taken, else 503, and what is wrong with engines that do not serve."""
    router = _service(request).router
    problems = router.problems()
    if request.app.state.stopping:
        status = "stopping"
    elif not router.ready:
        status = "not ready"
    else:
        status = "degraded" if problems else "ready"
    told = {"status": status, "problems": problems} if problems else {"status": status}
    return _json(told, 200 if status in ("ready", "degraded") else 503)


async def metrics(request: Request) -> Response:
    """GET /metrics, in Prometheus's text format."""
    registry = _service(request).router.metrics.registry
    return Response(generate_latest(registry), headers={"Content-Type": CONTENT_TYPE_LATEST})


async def show_version(request: Request) -> Response:
    """GET /version."""
    return _json({"version": __version__})


def _service(request: Request) -> Service:
    return request.app.state.service


def _card(request: Request) -> dict[str, object]:
    service = _service(request)
    return {
        "id": service.model_id,
        "object": "model",
        "created": request.app.state.started,
        "owned_by": "twinfer",
        "max_model_len": service.router.max_model_len,
    }


def _json(content: object, status: int = 200) -> Response:
    return Response(msgspec.json.encode(content), status, media_type="application/json")
