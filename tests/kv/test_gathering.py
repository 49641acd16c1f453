import numpy as np
import pytest

from twinfer.kv import gathering
from twinfer.kv.gathering import AHEAD, MOST_FAILURES, Gathering
from twinfer.kv.region import LARGE_PAGE, SharedRegion, map_region

from ..processes import has_large_pages, on_large_pages

PAGE = 368640


@pytest.fixture
def region():
    region = SharedRegion("gathered-test", AHEAD + 10 * LARGE_PAGE + 4096)
    yield region
    region.close()


def advance_all(gathering, pages):
    steps = 0
    while gathering.behind(pages):
        gathering.advance()
        steps += 1
    return steps


def test_it_keeps_ahead_of_what_was_used_to_the_end_of_the_pool(region):
    gathering = Gathering(region, PAGE)
    assert advance_all(gathering, 0) == AHEAD // LARGE_PAGE
    assert not gathering.behind(1)
    assert advance_all(gathering, 1 + LARGE_PAGE // PAGE) == 1
    assert advance_all(gathering, 10**6) == 9  # What is left is no whole piece.


def test_the_pool_lies_on_large_pages_and_holds_what_it_held(region):
    if not has_large_pages():
        pytest.skip("this system has no large pages to give")
    pool = map_region(region.fd, region.nbytes, writable=True)
    content = np.random.default_rng(3).bytes(3 * LARGE_PAGE + 777)
    pool[: len(content)] = content
    gathering = Gathering(region, PAGE)
    advance_all(gathering, 0)
    assert on_large_pages("gathered-test") >= AHEAD
    assert pool[: len(content)] == content
    assert not any(pool[len(content) : len(content) + LARGE_PAGE])


def test_a_system_without_large_pages_is_left_in_peace(region, monkeypatch):
    answers = [False] * (MOST_FAILURES - 1) + [True] + [False] * 100
    monkeypatch.setattr(gathering, "enlarge_pages", lambda mapped: answers.pop(0))
    assert advance_all(Gathering(region, PAGE), 0) == 2 * MOST_FAILURES
