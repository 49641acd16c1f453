import time

from twinfer.kv.board import FOREVER, MOST_IN_FLIGHT, Board, board_bytes
from twinfer.kv.region import SharedRegion, map_region


def boards():
    """The same board as two processes would see it."""
    region = SharedRegion("test", board_bytes(3, 50))
    return [Board(map_region(region.fd, region.nbytes, writable=True), 3) for _ in range(2)]


def test_notes_are_seen_by_others_and_slots_do_not_overlap():
    ours, theirs = boards()
    for number in range(3):
        ours.slot(number).open(number + 7, time.monotonic_ns())
        ours.slot(number).in_flight = {n: n + number for n in range(number + 1)}
    assert [theirs.slot(number).owner for number in range(3)] == [7, 8, 9]
    assert [theirs.slot(number).in_flight for number in range(3)] == [
        {0: 0},
        {0: 1, 1: 2},
        {0: 2, 1: 3, 2: 4},
    ]
    assert theirs.slot(1).lent_until == FOREVER
    ours.slot(1).lent_until = 5
    ours.slot(1).has_prompts = True
    assert (theirs.slot(1).lent_until, theirs.slot(1).has_prompts) == (5, True)
    assert not theirs.slot(0).has_prompts
    ours.stamps[49] = 4
    assert theirs.stamps[49] == 4
    assert theirs.slot(2).in_flight == {0: 2, 1: 3, 2: 4}


def test_more_requests_than_fit_are_cut_and_touch_nobody_else():
    ours, theirs = boards()
    ours.slot(1).open(3, 0)
    ours.slot(0).in_flight = dict.fromkeys(range(5000), 7)
    assert theirs.slot(0).in_flight == dict.fromkeys(range(MOST_IN_FLIGHT), 7)
    assert theirs.slot(1).owner == 3
    assert len(theirs.stamps) == 50
