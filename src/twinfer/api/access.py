"""Who may ask what: names the server answers to, pages that may call it, and keys."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from pathlib import Path

import msgspec

from twinfer.api import keys
from twinfer.errors import ConfigError

ANY = "*"
LOOPBACK_NAME = "localhost"


class Access(msgspec.Struct, frozen=True, kw_only=True):
    """What is let in; `access` makes one from options.

    keys     digests of the API keys; without any, none is asked for
    admin    digest of the token that changes engines, or None for nobody
    hosts    names that requests may be for, in lower case; addresses always are. "*" is any name
    origins  of web pages that may call the server; "*" is any
    """

    keys: tuple[bytes, ...] = ()
    admin: bytes | None = None
    hosts: frozenset[str] = frozenset({LOOPBACK_NAME})
    origins: frozenset[str] = frozenset()


def access(
    *,
    host: str,
    api_keys: Sequence[str] = (),
    api_key_file: Path | None = None,
    admin_token: str | None = None,
    allowed_hosts: Sequence[str] = (),
    cors_origins: Sequence[str] = (),
) -> Access:
    """The access that options ask for, on a server bound to `host`.

    Raises:
        ConfigError: an option cannot be honoured.
    """
    for key in api_keys:
        keys.check("an API key", key)
    if admin_token is not None:
        keys.check("the admin token", admin_token)
    for origin in cors_origins:
        _check_origin(origin)
    from_file = keys.read_file(api_key_file) if api_key_file is not None else []
    return Access(
        keys=tuple(dict.fromkeys([*map(keys.digest, api_keys), *from_file])),
        admin=None if admin_token is None else keys.digest(admin_token),
        hosts=frozenset({LOOPBACK_NAME, host.lower(), *map(str.lower, allowed_hosts)}),
        origins=frozenset(cors_origins),
    )


def host_allowed(host: str, access: Access) -> bool | None:
    """Whether a request may be for this `Host`, a name or address with or without a port; None if malformed.

    A page elsewhere can point its own name at this machine, and so make a browser here ask us in its
    name. It cannot do so with an address.
    """
    parts = re.fullmatch(r"(\[[0-9A-Fa-f:.]+\]|[^\s:/@\[\]]+)(?::\d{1,5})?", host)
    if parts is None:
        return None
    name = parts[1].strip("[]").lower()
    return ANY in access.hosts or name.rstrip(".") in access.hosts or _is_address(name)


def origin_allowed(origin: str, host: str, access: Access) -> bool:
    """Whether a web page from `origin` may call the server at `host`: listed ones, and its own pages."""
    return ANY in access.origins or origin in access.origins or origin.partition("://")[2] == host


def is_loopback(client: tuple[str, int] | None) -> bool:
    """Whether a client's address is of this machine."""
    try:
        address = ipaddress.ip_address(client[0] if client else "")
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _check_origin(origin: str) -> None:
    if origin != ANY and not re.fullmatch(r"[a-z][a-z0-9+.-]*://[^/\s]+", origin):
        raise ConfigError(f"'{origin}' is not an origin; write for example https://chat.example.org")
