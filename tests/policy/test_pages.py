import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinfer.policy.pages import PageLedger, pages_for

ACTS = st.lists(st.tuples(st.sampled_from(["grant", "release"]), st.integers(1, 6), st.integers(0, 9)))


@given(st.integers(0, 40), ACTS)
def test_every_page_is_free_or_in_one_lease(total, acts):
    ledger = PageLedger(total)
    held = {}
    for act, request, count in acts:
        if act == "grant":
            free = ledger.free
            pages = ledger.grant(request, count)
            assert len(pages) == (count if 0 < count <= free else 0)
            held.setdefault(request, []).extend(pages)
        else:
            ledger.release(request)
            held.pop(request, None)
        ledger.check()
        assert ledger.lease(request) == held.get(request, [])
        assert ledger.held(request) == len(held.get(request, []))
    assert ledger.free == total - sum(map(len, held.values()))


def test_check_finds_a_page_in_two_places():
    ledger = PageLedger(4)
    pages = ledger.grant(1, 2)
    ledger._leases[2] = [pages[0]]
    with pytest.raises(AssertionError, match="4 pages, but 5"):
        ledger.check()


def test_pages_for_rounds_up():
    assert [pages_for(tokens, 16) for tokens in (0, 1, 16, 17)] == [0, 1, 1, 2]
