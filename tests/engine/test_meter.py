"""What an engine says of its cores: the waits of its steps, and when it says it."""

import numpy as np

from twinfer.engine.meter import REPORT_SECONDS, Meter


class Team:
    """Took so many seconds on each of two cores."""

    def __init__(self):
        self.seconds = np.array([1.0, 0.5])

    def busy(self):
        return self.seconds


def test_waits_and_lateness_are_counted():
    meter = Meter(Team())
    meter.step(10.0)  # Waits for nothing.
    meter.wait(10.5, 11.0)
    meter.wait(10.75, 11.0)  # Woken by a message in between.
    meter.step(11.25)
    meter.wait(12.0, 13.0)
    meter.step(12.5)  # Prompts ended, so that there was no reason to wait any longer.
    usage = meter.report(20.0, idle=False)
    assert usage.cores == [1.0, 0.5]
    assert (usage.paced_steps, usage.paced_seconds, usage.late_seconds, usage.latest) == (2, 1.25, 0.25, 0.25)


def test_a_wait_that_ends_without_a_step_is_none():
    meter = Meter(Team())
    meter.wait(10.0, 11.0)
    assert meter.report(10.5, idle=True) is None
    meter.step(50.0)
    assert meter.report(50.0, idle=True).paced_steps == 0


def test_reports_come_at_times_and_before_rest_but_not_without_news():
    meter = Meter(Team())
    assert meter.report(5.0, idle=True) is None
    meter.step(5.0)
    assert meter.report(5.0, idle=False) is not None
    meter.step(5.01)
    assert meter.report(5.02, idle=False) is None
    assert meter.report(5.0 + REPORT_SECONDS, idle=False) is not None
    meter.step(5.3)
    assert meter.report(5.31, idle=True) is not None
    assert meter.report(9.0, idle=True) is None
