"""The thread team: its size, its errors, and that it costs nothing when idle."""

import random
import resource
import threading
import time

import pytest

from tests import tiny
from tests.native.runs import Piece, build, forward
from twinfer import _native
from twinfer.model.load import load


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


def test_every_item_is_computed_once_while_the_team_changes():
    """The size changes between and during rounds, from another thread, with more members than cores."""
    team = _native.Team([-1] * 4)
    over = threading.Event()

    def resize():
        source = random.Random(3)
        while not over.is_set():
            team.active = source.randint(1, 4)
            time.sleep(source.choice([0, 0, 1e-4, 2e-3]))

    other = threading.Thread(target=resize)
    other.start()
    try:
        for items in (0, 1, 2, 3, 17, 200):
            team.exercise(items, 400, 2e-6)
        time.sleep(0.01)
        team.exercise(9, 200, 1e-5)
    finally:
        over.set()
        other.join()


def test_members_that_are_not_active_sleep():
    team = _native.Team([-1] * 4)
    team.active = 1
    time.sleep(0.02)
    before = time.process_time()
    began = time.thread_time()
    team.exercise(4, 100, 2e-4)
    others = (time.process_time() - before) - (time.thread_time() - began)
    assert others < 0.02


def test_processor_time_is_that_of_the_members():
    team = _native.Team([-1] * 3)
    team.active = 2
    before = team.busy()
    assert before.shape == (3,)
    process = time.process_time()
    team.exercise(400, 5, 5e-5)
    used = team.busy() - before
    assert (used >= 0).all()
    # All the time of the rounds is the members', the caller's above all: it never sleeps in one.
    assert used[0] > 0.01
    assert used.sum() <= time.process_time() - process + 1e-3
    assert used[2] < 0.005  # not active


def test_a_team_without_work_can_end_at_any_time():
    for members in (1, 2, 5):
        team = _native.Team([-1] * members)
        team.exercise(members, 3, 1e-6)
        del team


def test_a_second_caller_is_told_that_the_team_is_busy(tmp_path):
    """Whether it computes with the same decoder or just the same team; and then it goes on as before."""
    run = build(load(tiny.write_gguf(tmp_path / "tiny.gguf", "BF16")), pages=4)
    piece = Piece([1, 2, 3], 0, [0])
    alone = forward(run, [piece])
    first = threading.Thread(target=run.team.exercise, args=(1, 1, 1.0))
    first.start()

    def insist():
        while first.is_alive():
            forward(run, [piece])

    with pytest.raises(
        RuntimeError, match=r"^the team is computing already; use it from one thread at a time$"
    ):
        insist()
    with pytest.raises(RuntimeError, match="one thread at a time"):
        run.team.exercise(1, 1, 0.0)
    first.join()
    assert forward(run, [piece]).tolist() == alone.tolist()
