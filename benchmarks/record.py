"""Where and when a figure was measured, and the file it is kept in."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from datetime import date
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"


def machine() -> dict[str, Any]:
    """The processor, its usable cores, the commit and the date."""
    return {
        "cpu": _cpu_model(),
        "cores": len(os.sched_getaffinity(0)),
        "kernel": platform.release(),
        "commit": _git("rev-parse", "--short", "HEAD")
        + ("+changes" if _git("status", "--porcelain") else ""),
        "date": date.today().isoformat(),
    }


def save(name: str, figures: dict[str, Any]) -> None:
    """Write the figures with their machine to `results/NAME.json`, and print them as one JSON line."""
    RESULTS.mkdir(exist_ok=True)
    record = {"machine": machine(), **figures}
    (RESULTS / f"{name}.json").write_text(json.dumps(record, indent=2) + "\n")
    print(json.dumps(figures))


def _cpu_model() -> str:
    """The model's name; virtual machines often tell less than family and model numbers do."""
    facts: dict[str, str] = {}
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        key, _, value = line.partition(":")
        facts.setdefault(key.strip(), value.strip())
    name = facts.get("model name", platform.machine())
    return f"{name} (family {facts.get('cpu family')}, model {facts.get('model')})"


def _git(*args: str) -> str:
    done = subprocess.run(["git", *args], capture_output=True, text=True, cwd=RESULTS.parent, check=False)
    return done.stdout.strip()
