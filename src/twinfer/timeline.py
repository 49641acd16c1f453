"""A request's life as timestamps. TTFT, TPOT, queueing and hand-over are computed from these only."""

from __future__ import annotations

import msgspec


class Timeline(msgspec.Struct):
    """Seconds of the host's monotonic clock, in the order they happen; 0 where not reached.

    prefill_began, prefill_ended and decode_began are taken in the engines, right around their
    kernels; the others in the router.
    """

    arrived: float = 0.0
    prefill_sent: float = 0.0
    prefill_began: float = 0.0
    prefill_ended: float = 0.0
    first_token: float = 0.0
    decode_sent: float = 0.0
    decode_began: float = 0.0
    last_token: float = 0.0
    finished: float = 0.0
    tokens: int = 0

    @property
    def queueing(self) -> float:
        """Arrival to the first prefill kernel, in seconds."""
        return max(0.0, self.prefill_began - self.arrived) if self.prefill_began else 0.0

    @property
    def ttft(self) -> float:
        """Arrival to the first token in the router, in seconds."""
        return self.first_token - self.arrived if self.first_token else 0.0

    @property
    def tpot(self) -> float:
        """Mean gap between tokens after the first, in seconds; 0 with fewer than two tokens."""
        return (self.last_token - self.first_token) / (self.tokens - 1) if self.tokens > 1 else 0.0

    @property
    def handover(self) -> float:
        """Prefill's last kernel to the first decode step with the request, in seconds."""
        return self.decode_began - self.prefill_ended if self.decode_began else 0.0
