"""An engine finds out, from the board alone, which of its requests have lost a page."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinfer.engine.sequence import Sequence
from twinfer.engine.watch import Watch
from twinfer.kv.board import Board, board_bytes
from twinfer.kv.region import SharedRegion, map_region
from twinfer.messages import Decode, Place, Region, Sampling, Task

PAGES = 40


@pytest.fixture(scope="module")
def board():
    """The board as the router sees it, and what an engine sees of it."""
    region = SharedRegion("test", board_bytes(1, PAGES))
    mapped = Board(map_region(region.fd, region.nbytes, writable=True), 1)
    yield mapped, Watch(Place(Region(region.fd, region.nbytes), 1, 0, 1, []))
    region.close()


tables = st.lists(
    st.lists(st.integers(0, PAGES - 1), min_size=1, max_size=9, unique=True), min_size=1, max_size=9
)


@given(tables, st.sets(st.integers(0, PAGES - 1), max_size=6), st.data())
def test_those_are_stale_that_hold_a_page_with_a_new_stamp(board, tables, lost, data):
    stamps, watch = board[0].stamps, board[1]
    sequences = []
    for request, pages in enumerate(tables):
        first = data.draw(st.integers(1, len(pages)))
        task = Task(Sampling(), (), 16 * (PAGES + 1))
        under = [stamps[page] for page in pages]
        sequences.append(Sequence(Decode(request, [1], 0, pages[:first], under[:first], task), 16))
        if pages[first:]:
            sequences[-1].grant(pages[first:], under[first:])
    assert watch.stale(sequences) == []
    for page in lost:
        stamps[page] += 1
    assert [sequence.request for sequence in watch.stale(sequences)] == [
        request for request, pages in enumerate(tables) if lost & set(pages)
    ]
