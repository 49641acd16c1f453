import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinfer.policy.pages import PageLedger, pages_for

ACTS = st.lists(
    st.tuples(st.sampled_from(["grant", "release", "publish", "share"]), st.integers(1, 6), st.integers(0, 9))
)


@given(st.integers(0, 40), ACTS)
def test_every_page_is_free_or_in_one_lease(total, acts):
    ledger = PageLedger(total)
    held = {}
    granted = set()
    for act, request, count in acts:
        if act == "grant":
            free = ledger.free
            pages = ledger.grant(request, count)
            assert len(pages) == (count if 0 < count <= free else 0)
            held.setdefault(request, []).extend(pages)
            granted.update(pages)
        elif act == "publish":
            ledger.publish(request, [bytes([request, page]) for page in range(count)])
        elif act == "share" and not held.get(count):
            found = ledger.find([bytes([request, page]) for page in range(9)])
            free, cost = ledger.free, ledger.cost(found)
            ledger.share(count, found)
            assert free - ledger.free == cost
            held.setdefault(count, []).extend(found)
        elif act == "release":
            ledger.release(request)
            held.pop(request, None)
        ledger.check()
        assert ledger.reached == max(granted, default=-1) + 1
        assert ledger.lease(request) == held.get(request, [])
        assert ledger.held(request) == len(held.get(request, []))
    assert ledger.free == total - len({page for lease in held.values() for page in lease})


def test_check_finds_a_page_in_two_places():
    ledger = PageLedger(4)
    pages = ledger.grant(1, 2)
    ledger._leases[2] = [pages[0]]
    with pytest.raises(AssertionError, match="other holders"):
        ledger.check()


def test_pages_for_rounds_up():
    assert [pages_for(tokens, 16) for tokens in (0, 1, 16, 17)] == [0, 1, 1, 2]
