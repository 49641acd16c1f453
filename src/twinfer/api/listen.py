"""The listening socket, bound before anything slow is started."""

from __future__ import annotations

import errno
import socket

from twinfer.errors import ConfigError

SEND_BUFFER = 256 << 10
"""Bytes that the system holds for a client that does not read; by itself it would take megabytes."""


def bind(host: str, port: int) -> socket.socket:
    """A TCP socket bound to `host` and `port`; port 0 takes a free one. It does not listen yet.

    Raises:
        ConfigError: the address cannot be had; the message says why.
    """
    if not 0 <= port <= 65535:
        raise ConfigError(f"port must be from 0 to 65535, not {port}")
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError):
        raise ConfigError(f"host '{host}' is not a known name or address") from None
    family, kind, protocol, _, address = found[0]
    bound = socket.socket(family, kind, protocol)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
        bound.bind(address)
    except OSError as error:
        bound.close()
        raise _refusal(error, host, port) from None
    return bound


def start_listening(bound: socket.socket) -> None:
    """Accept connections from now on.

    Raises:
        ConfigError: another program has begun to listen there since `bind`.
    """
    host, port = bound.getsockname()[:2]
    try:
        bound.listen()
    except OSError as error:
        raise _refusal(error, host, port) from None


def url(bound: socket.socket, *, tls: bool = False) -> str:
    """The address as a client on this machine may write it."""
    host, port = bound.getsockname()[:2]
    if host in ("0.0.0.0", "::"):
        host = "127.0.0.1"
    scheme = "https" if tls else "http"
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def _refusal(error: OSError, host: str, port: int) -> ConfigError:
    """Why the system would not let us listen there, in one line."""
    if error.errno == errno.EADDRINUSE:
        return ConfigError(f"port {port} on {host} is already in use; choose another with --port")
    if error.errno == errno.EACCES:
        return ConfigError(f"port {port} needs more rights than this user has; choose another with --port")
    if error.errno == errno.EADDRNOTAVAIL:
        return ConfigError(f"host {host} is not an address of this machine; choose another with --host")
    return ConfigError(f"cannot listen on {host} port {port}: {error.strerror}")
