"""The measurements, each saved as soon as it is there; what was measured of the same code is not again."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

Entry = dict[str, Any]


class Book:
    """Entries of a JSON file, told apart by their keys: `row`, `mode` and whatever else they are of.

    identity    what has to be the same for an entry to be used again: the code, and how long is measured
    summarise   the rows that follow from all entries, saved with them
    """

    def __init__(
        self,
        path: Path,
        identity: Mapping[str, Any],
        machine: Mapping[str, Any],
        summarise: Callable[[Sequence[Entry]], Any],
    ) -> None:
        self._path = path
        self._identity = dict(identity)
        self._machine = dict(machine)
        self._summarise = summarise
        self.entries: list[Entry] = json.loads(path.read_text())["entries"] if path.exists() else []

    def begin(self, row: str, *, again: bool) -> None:
        """Drop what is held of a row but cannot be used any more; with `again`, everything of it."""
        self.entries = [
            entry for entry in self.entries if entry["row"] != row or (not again and self._is_current(entry))
        ]

    def get(self, key: Mapping[str, Any], measure: Callable[[], Entry]) -> tuple[Entry, bool]:
        """The entry of a key, measured and saved if it is not there; and whether it was there."""
        for entry in self.entries:
            if self._is_current(entry) and all(entry.get(name) == value for name, value in key.items()):
                return entry, True
        figures = measure()
        now = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime())
        found = {**key, **self._identity, "at": now, **figures}
        self.entries.append(found)
        self.save()
        return found, False

    def rows(self) -> Any:
        return self._summarise(self.entries)

    def record(self) -> dict[str, Any]:
        """What is saved."""
        return {"machine": self._machine, "rows": self.rows(), "entries": self.entries}

    def save(self) -> None:
        """Write everything, at once or not at all."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        draft = self._path.with_suffix(".draft")
        draft.write_text(json.dumps(self.record(), indent=1) + "\n")
        draft.replace(self._path)

    def _is_current(self, entry: Entry) -> bool:
        return all(entry.get(name) == value for name, value in self._identity.items())
