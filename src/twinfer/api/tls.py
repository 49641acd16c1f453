"""The certificate that the server shows, checked before anything slow is started."""

from __future__ import annotations

import ssl
from pathlib import Path

import msgspec

from twinfer.errors import ConfigError


class Certificate(msgspec.Struct, frozen=True):
    """Files in PEM format: the certificate with its chain, and its private key."""

    certfile: Path
    keyfile: Path


def certificate(certfile: Path | None, keyfile: Path | None) -> Certificate | None:
    """The certificate that the options name, or None for plain HTTP.

    Raises:
        ConfigError: only one of the two is given, or they cannot be used.
    """
    if certfile is None and keyfile is None:
        return None
    if certfile is None or keyfile is None:
        raise ConfigError("--ssl-certfile and --ssl-keyfile are needed both")
    _check_readable(certfile)
    _check_readable(keyfile)
    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certfile, keyfile, password=_no_password)
    except (ssl.SSLError, ValueError) as error:
        reason = getattr(error, "reason", None) or str(error)
        raise ConfigError(f"{certfile} and {keyfile} are no usable certificate and key: {reason}") from None
    return Certificate(certfile, keyfile)


def _check_readable(path: Path) -> None:
    try:
        path.open("rb").close()
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from None


def _no_password() -> str:
    """Instead of OpenSSL asking for one on the terminal."""
    raise ValueError("the key is encrypted")
