"""Where a server is."""

from __future__ import annotations

from urllib.parse import urlsplit

import msgspec

from twinfer.errors import ConfigError


class Address(msgspec.Struct, frozen=True):
    """A server's host, port, and what its paths begin with; `tls` for https."""

    host: str
    port: int
    prefix: str = ""
    tls: bool = False

    @property
    def authority(self) -> str:
        """Host and port as in a URL."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def url(self) -> str:
        return f"{'https' if self.tls else 'http'}://{self.authority}{self.prefix}"


def parse(url: str) -> Address:
    """The address in a URL, with or without the `/v1` that OpenAI's clients want at its end.

    Raises:
        ConfigError: it is not an http or https URL with a host.
    """
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port, parts = None, None, urlsplit("")
    if parts.scheme not in ("http", "https") or not host or parts.query or parts.fragment:
        raise ConfigError(f"'{url}' is not a server's URL; write for example http://127.0.0.1:8000")
    tls = parts.scheme == "https"
    prefix = parts.path.rstrip("/").removesuffix("/v1")
    return Address(host, port if port is not None else 443 if tls else 80, prefix, tls)
