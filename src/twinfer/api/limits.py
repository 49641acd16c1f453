"""How much one client may ask for, and how long anything may take."""

from __future__ import annotations

import msgspec

from twinfer.errors import ConfigError
from twinfer.sampling import MOST_CHOICES, MOST_STOPS

COUNTS = (
    *("max_queue", "max_streams", "max_connections", "max_body_size", "max_header_size"),
    *("max_choices", "max_stop_strings", "max_answer_tokens"),
)
LONGEST = 1e6
"""Seconds that stand for no time limit."""

TIMES = ("read_timeout", "send_timeout", "request_timeout")


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of a server. Times in seconds, sizes in bytes. `validated` checks them as a whole.

    max_queue          answers that wait in the router; more is refused with 429
    max_streams        requests of one key, or of one address where there are no keys, answered at a time
    max_connections    open at a time
    max_body_size, max_header_size   of a request
    max_answer_tokens  `max_tokens` that may be asked for, or None for what the context holds
    max_choices        `n` that may be asked for
    max_stop_strings   stop strings of a request
    request_timeout    from a request's arrival to its answer's end, or None
    read_timeout       in which a request's head must have come, and after that its body
    send_timeout       that a client may leave what was sent to it unread
    shutdown_timeout   that running answers are given when the server stops; 0 ends them at once
    """

    max_queue: int = 512
    max_streams: int = 512
    max_connections: int = 4096
    max_body_size: int = 4 << 20
    max_header_size: int = 32 << 10
    max_answer_tokens: int | None = None
    max_choices: int = MOST_CHOICES
    max_stop_strings: int = MOST_STOPS
    request_timeout: float | None = 600.0
    read_timeout: float = 30.0
    send_timeout: float = 30.0
    shutdown_timeout: float = 30.0

    def validated(self) -> Limits:
        """These limits, checked.

        Raises:
            ConfigError: one is out of range.
        """
        for name in COUNTS:
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigError(f"{name} must be at least 1, not {value}")
        for name, most in (("max_choices", MOST_CHOICES), ("max_stop_strings", MOST_STOPS)):
            if getattr(self, name) > most:
                raise ConfigError(f"{name} must be at most {most}, not {getattr(self, name)}")
        for name in TIMES:
            value = getattr(self, name)
            if value is not None and not 0 < value <= LONGEST:
                raise ConfigError(f"{name} must be over 0 and at most {LONGEST:.0f} seconds, not {value}")
        if not 0 <= self.shutdown_timeout <= LONGEST:
            raise ConfigError(
                f"shutdown_timeout must be from 0 to {LONGEST:.0f} seconds, not {self.shutdown_timeout}"
            )
        return self
