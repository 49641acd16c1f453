"""Secrets that clients show, as their SHA-256 digests, compared in constant time."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterable
from pathlib import Path

from twinfer.errors import ConfigError


def digest(secret: str) -> bytes:
    """What is kept of a secret: 32 bytes."""
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).digest()


def find(secret: str, known: Iterable[bytes]) -> bytes | None:
    """The digest of `secret` if it is among `known`. The time taken does not tell which, or how nearly."""
    shown = digest(secret)
    found = [hmac.compare_digest(shown, one) for one in known]
    return shown if any(found) else None


def check(option: str, secret: str) -> None:
    """Refuse a secret that no client could send.

    Raises:
        ConfigError: it is empty, or holds spaces or characters that do not fit into a header. The message
            does not show it.
    """
    if not re.fullmatch(r"[\x21-\x7e]+", secret):
        raise ConfigError(f"{option} must be printable ASCII characters without spaces, at least one")


def read_file(path: Path) -> list[bytes]:
    """The digests in a file: 64 hexadecimal digits a line; empty lines and those from # on do not count.

    Raises:
        ConfigError: it cannot be read, or a line is something else.
    """
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise ConfigError(f"cannot read the API keys in {path}: {reason}") from None
    digests: list[bytes] = []
    for number, line in enumerate(lines, 1):
        text = line.partition("#")[0].strip()
        if re.fullmatch(r"[0-9a-fA-F]{64}", text):
            digests.append(bytes.fromhex(text))
        elif text:
            raise ConfigError(f"{path}, line {number}: must be a key's SHA-256, 64 hexadecimal digits")
    if not digests:
        raise ConfigError(f"{path} holds no API key")
    return digests
