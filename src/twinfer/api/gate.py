"""The first thing a request meets: is it for us, from a page that may, with a key, and not too late?

Nothing of the body has been read yet.
"""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Receive, Scope, Send

from twinfer.api import keys
from twinfer.api.access import Access, host_allowed, is_loopback, origin_allowed
from twinfer.errors import UnavailableError

OPEN = frozenset({"/health", "/ready"})
"""Routes that need no key and answer while the server stops."""

ADMIN = "/admin/"
OBSERVED = ("/metrics", ADMIN)
"""Routes that answer while the server stops."""

READING = ("GET", "HEAD")
NO_KEY = "no API key; send one as 'Authorization: Bearer KEY'"
WRONG_KEY = "this API key is not known here"
NO_ADMIN = "routes that change engines are off; start the server with --admin-token to have them"
NO_TOKEN = "this route needs the admin token; send it as 'Authorization: Bearer TOKEN' or 'X-Admin-Token'"


class Gate:
    """Refuses requests by their head alone. The client's identity is left in the request's state as `client`.

    Raises:
        HTTPException: 400, 401, 403 or 421.
        UnavailableError: the server is stopping.
    """

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self.app = app
        self.access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            headers = Headers(scope=scope)
            _check_host(headers, self.access)
            client = _identify(scope, headers, self.access)
            scope.setdefault("state", {})["client"] = client
            path: str = scope["path"]
            if scope["app"].state.stopping and path not in OPEN and not path.startswith(OBSERVED):
                raise UnavailableError("the server is stopping")
        await self.app(scope, receive, send)


def _check_host(headers: Headers, access: Access) -> None:
    hosts = headers.getlist("host")
    allowed = host_allowed(hosts[0], access) if len(hosts) == 1 else None
    if allowed is None:
        raise HTTPException(400, "the request must name its host in one valid 'Host' header")
    if not allowed:
        raise HTTPException(
            421, "this server is not known by the name in 'Host'; --allowed-host lets it answer to more names"
        )
    origin = headers.get("origin")
    if origin is not None and not origin_allowed(origin, hosts[0], access):
        raise HTTPException(403, "web pages from this origin may not call the server; see --cors-origin")


def _identify(scope: Scope, headers: Headers, access: Access) -> str:
    """Who asks: a key's digest, or an address."""
    address = scope.get("client")
    name = address[0] if address else ""
    if scope["path"].startswith(ADMIN):
        _check_admin(scope, headers, access)
    elif access.keys and scope["path"] not in OPEN:
        secret = _bearer(headers)
        if secret is None:
            raise _unauthorised(NO_KEY)
        known = keys.find(secret, access.keys)
        if known is None:
            raise _unauthorised(WRONG_KEY)
        return known.hex()
    return name


def _check_admin(scope: Scope, headers: Headers, access: Access) -> None:
    """Looking is for this machine or the token's owner, changing for the latter only."""
    looking = scope["method"] in READING
    if looking and is_loopback(scope.get("client")):
        return
    if access.admin is None:
        raise HTTPException(403, NO_ADMIN)
    secret = headers.get("x-admin-token") or _bearer(headers)
    if secret is None or keys.find(secret, [access.admin]) is None:
        raise _unauthorised(NO_TOKEN)


def _bearer(headers: Headers) -> str | None:
    scheme, _, secret = headers.get("authorization", "").partition(" ")
    return secret.strip() if scheme.lower() == "bearer" else None


def _unauthorised(message: str) -> HTTPException:
    return HTTPException(401, message, {"WWW-Authenticate": "Bearer"})
