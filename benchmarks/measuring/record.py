"""Where and when a figure was measured, and the files it is kept in: each machine has a folder of its own."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import subprocess
from datetime import date
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
RESULTS, DOCS = ROOT / "benchmarks" / "results", ROOT / "docs"


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


def short_name(machine: dict[str, Any]) -> str:
    """A machine's name for folders and marks: that of its processor."""
    return re.sub("[^a-z0-9]+", "-", machine["cpu"].lower()).strip("-")


def results(name: str) -> Path:
    """The file of figures measured on this machine."""
    return RESULTS / short_name(machine()) / f"{name}.json"


def picture(machine: dict[str, Any], name: str) -> str:
    """The path of a machine's picture, from the folder of the documents that show it."""
    return f"pictures/{short_name(machine)}/{name}.png"


def described(machine: dict[str, Any]) -> str:
    """A machine in a document's words."""
    return f"{machine['cpu']}, {machine['cores']} cores, commit {machine['commit']}, {machine['date']}"


def save(name: str, figures: dict[str, Any]) -> dict[str, Any]:
    """Write the figures with their machine to `results/MACHINE/NAME.json`, and print them as one JSON line.

    Returns what was written.
    """
    path = results(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    record = {"machine": machine(), **figures}
    path.write_text(json.dumps(record, indent=2) + "\n")
    print(json.dumps(figures))
    return record


def code_version() -> str:
    """The last commit that touched what is measured, and a hash of what has changed in it since."""
    parts = ("src", "native", "CMakeLists.txt", "pyproject.toml")
    commit = _git("log", "-1", "--format=%h", "--", *parts)
    changes = _git("diff", "HEAD", "--", *parts)
    return commit + (f"+{hashlib.sha256(changes.encode()).hexdigest()[:7]}" if changes else "")


def fill(path: Path, program: str, lines: list[str], machine: dict[str, Any] | None = None) -> None:
    """Replace what a document holds between the marks of a program by these lines.

    What depends on the machine has marks for each; a new one comes after the others.

    Raises:
        ValueError: the document has no place for this program.
    """
    text, end = path.read_text(), "<!-- end -->\n"
    wanted = f"<!-- table: benchmarks.{program}{f' on {short_name(machine)}' if machine else ''} -->\n"
    marks = re.findall(f"<!-- table: benchmarks.{re.escape(program)}(?: on .*)? -->\n", text)
    if not marks:
        raise ValueError(f"{path} has no place for what benchmarks.{program} writes")
    if wanted not in marks:
        before, last, rest = text.rpartition(marks[-1])
        text = before + last + rest.replace(end, f"{end}\n{wanted}{end}", 1)
    before, _, rest = text.partition(wanted)
    after = rest.partition(end)[2]
    path.write_text(before + wanted + "\n".join(lines) + "\n" + end + after)


def _cpu_model() -> str:
    """The model's name; virtual machines often tell less than family and model numbers do."""
    facts: dict[str, str] = {}
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        key, _, value = line.partition(":")
        facts.setdefault(key.strip(), value.strip())
    name = facts.get("model name", platform.machine())
    return f"{name} (family {facts.get('cpu family')}, model {facts.get('model')})"


def _git(*args: str) -> str:
    done = subprocess.run(["git", *args], capture_output=True, text=True, cwd=ROOT, check=False)
    return done.stdout.strip()
