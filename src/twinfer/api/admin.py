"""Looking at the engines, and changing what they do. The gate has seen to it that the client may."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from twinfer.api import body
from twinfer.api.service import Router
from twinfer.messages import Role


class RoleRequest(msgspec.Struct, forbid_unknown_fields=True):
    role: Role


async def engines(request: Request) -> Response:
    """GET /admin/engines: every engine's role, process, cores, state and load."""
    return _json({"engines": _router(request).engines()})


async def drain(request: Request) -> Response:
    """POST /admin/engines/{engine}/drain: its requests move elsewhere, and it gets no more."""
    router, name = _router(request), _name(request)
    others = [each for each in router.engines() if each["state"] == "ready" and each["id"] != name]
    if not others:
        raise HTTPException(409, f"no other engine than '{name}' is ready, so it cannot be drained")
    router.drain(name, True)
    return _json(_described(router, name))


async def resume(request: Request) -> Response:
    """POST /admin/engines/{engine}/resume: a drained engine is taken back."""
    router, name = _router(request), _name(request)
    router.drain(name, False)
    return _json(_described(router, name))


async def set_role(request: Request) -> Response:
    """POST /admin/engines/{engine}/role: requests that do not fit its new role move elsewhere."""
    router, name = _router(request), _name(request)
    asked = await body.read(request, RoleRequest)
    router.set_role(name, asked.role)
    return _json(_described(router, name))


def _router(request: Request) -> Router:
    return request.app.state.service.router


def _name(request: Request) -> str:
    return request.path_params["engine"]


def _described(router: Router, name: str) -> dict[str, Any]:
    return next(engine for engine in router.engines() if engine["id"] == name)


def _json(content: object) -> Response:
    return Response(msgspec.json.encode(content), media_type="application/json")
