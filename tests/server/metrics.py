"""What /metrics says."""

from __future__ import annotations

import time

import httpx


def metric(url: str, name: str) -> float:
    """The value of a metric without labels."""
    lines = httpx.get(f"{url}/metrics").text.splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith(f"{name} "))


def wait_until_idle(url: str, seconds: float = 5) -> None:
    """Until no request holds pages."""
    deadline = time.monotonic() + seconds
    while metric(url, "twinfer_kv_leases"):
        assert time.monotonic() < deadline, "pages stay leased"
        time.sleep(0.02)
