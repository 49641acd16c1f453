"""The error of a benchmark that cannot be run."""

from __future__ import annotations

from twinfer.errors import TwinferError


class ServerError(TwinferError):
    """The server to be measured cannot be reached, or answers nothing that can be measured."""
