"""What the router is told about an engine's cores: how long they were used, and how lending them went."""

from __future__ import annotations

from twinfer._native import Team
from twinfer.messages import Usage

REPORT_SECONDS = 0.25


class Meter:
    """Counts for `team` since it was made. All times are seconds of the monotonic clock."""

    def __init__(self, team: Team) -> None:
        self._team = team
        self._waiting: tuple[float, float] | None = None  # since when, and until when at the latest
        self._steps = 0
        self._seconds = self._late = self._latest = 0.0
        self._reported = 0.0
        self._news = False

    def wait(self, now: float, due: float) -> None:
        """There are answers to write, but not before `due`; until then the cores are lent."""
        since = now if self._waiting is None else self._waiting[0]
        self._waiting = (since, due)

    def step(self, now: float) -> None:
        """A step begins."""
        self._news = True
        if self._waiting is None:
            return
        since, due = self._waiting
        late = max(0.0, now - due)
        self._waiting = None
        self._steps += 1
        self._seconds += now - since
        self._late += late
        self._latest = max(self._latest, late)

    def report(self, now: float, *, idle: bool) -> Usage | None:
        """What to tell the router: at times, and whenever the engine becomes idle."""
        if idle:
            self._waiting = None
        if not self._news or not (idle or now - self._reported >= REPORT_SECONDS):
            return None
        self._news = False
        self._reported = now
        cores = [float(seconds) for seconds in self._team.busy()]
        return Usage(cores, self._steps, self._seconds, self._late, self._latest)
