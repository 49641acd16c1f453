"""The thread team: its size, its errors, and that it costs nothing when idle."""

import resource
import time

import pytest

from twinfer import _native


def test_size_and_active_members():
    team = _native.Team([-1, -1, -1])
    assert team.size == team.active == 3
    team.active = 1
    assert team.active == 1
    for wrong in (0, 4):
        with pytest.raises(ValueError, match="team of 3"):
            team.active = wrong


@pytest.mark.parametrize("cores", [[], [5000], [-2]])
def test_impossible_cores(cores):
    with pytest.raises(ValueError, match=r"^[^\n]+$"):
        _native.Team(cores)


def test_an_idle_team_sleeps():
    team = _native.Team([-1] * 4)
    time.sleep(0.05)
    before = resource.getrusage(resource.RUSAGE_SELF)
    time.sleep(0.2)
    after = resource.getrusage(resource.RUSAGE_SELF)
    assert (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime) < 0.02
    assert team.size == 4
