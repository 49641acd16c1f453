from pathlib import Path

import numpy as np
import pytest

from twinfer.kv import gathering
from twinfer.kv.gathering import AHEAD, MOST_FAILURES, Gathering
from twinfer.kv.region import LARGE_PAGE, SharedRegion, enlarge_pages, map_region

from ..processes import on_large_pages

PAGE = 368640


@pytest.fixture
def region():
    region = SharedRegion("gathered-test", AHEAD + 10 * LARGE_PAGE + 4096)
    yield region
    region.close()


def advance_all(ahead, pages):
    steps = 0
    while ahead.behind(pages):
        ahead.advance()
        steps += 1
    return steps


def test_it_keeps_ahead_of_what_was_used_to_the_end_of_the_pool(region, monkeypatch):
    monkeypatch.setattr(gathering, "enlarge_pages", lambda mapped: True)
    ahead = Gathering(region, PAGE)
    assert advance_all(ahead, 0) == AHEAD // LARGE_PAGE
    assert not ahead.behind(1)
    assert advance_all(ahead, 1 + LARGE_PAGE // PAGE) == 1
    assert advance_all(ahead, 10**6) == 9  # What is left is no whole piece.


def test_the_pool_lies_on_large_pages_and_holds_what_it_held(region, monkeypatch):
    gathered = []

    def enlarge(mapped):
        gathered.append(enlarge_pages(mapped))
        return gathered[-1]

    monkeypatch.setattr(gathering, "enlarge_pages", enlarge)
    pool = map_region(region.fd, region.nbytes, writable=True)
    content = np.random.default_rng(3).bytes(3 * LARGE_PAGE + 777)
    pool[: len(content)] = content
    ahead = Gathering(region, PAGE)
    advance_all(ahead, 0)
    assert on_large_pages("gathered-test") >= LARGE_PAGE * gathered.count(True)
    assert pool[: len(content)] == content
    assert not any(pool[len(content) : len(content) + LARGE_PAGE])


def test_a_system_without_large_pages_is_left_in_peace(region, monkeypatch):
    answers = [False] * (MOST_FAILURES - 1) + [True] + [False] * 100
    monkeypatch.setattr(gathering, "enlarge_pages", lambda mapped: answers.pop(0))
    assert advance_all(Gathering(region, PAGE), 0) == 2 * MOST_FAILURES


def test_a_closed_one_lets_the_memory_go(region):
    ahead = Gathering(region, PAGE)
    ahead.advance()
    assert "gathered-test" in Path("/proc/self/maps").read_text()
    ahead.close()
    ahead.close()
    assert "gathered-test" not in Path("/proc/self/maps").read_text()
    assert not ahead.behind(10**6)
    ahead.advance()  # One may be on its way in a thread.
