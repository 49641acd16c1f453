"""Which cached pages are given up first."""

import math

from hypothesis import given
from hypothesis import strategies as st

from twinfer.policy.eviction import DOUBLED, CachedPages
from twinfer.policy.pages import PageLedger

CHAINS = st.lists(st.integers(0, 2), min_size=1, max_size=6)
"""Contents of pages; chains share the pages up to where their contents differ."""


def names(chain):
    return [bytes(chain[: place + 1]) for place in range(len(chain))]


def begin(ledger, number, chain):
    """Lease a chain's pages, those first that are there; False when there is no room."""
    found = ledger.find(names(chain))
    fresh = len(chain) - len(found)
    if fresh + ledger.cost(found) > ledger.free:
        return False
    ledger.share(number, found)
    ledger.grant(number, fresh)
    return True


def end(ledger, number, chain):
    ledger.publish(number, names(chain))
    ledger.release(number)


@given(st.integers(1, 12), st.lists(st.tuples(CHAINS, st.booleans(), st.integers(0, 9)), max_size=60))
def test_no_leased_page_is_given_up_and_no_page_before_those_that_need_it(total, acts):
    """Chains begin and end in any order, also such that the same content is computed twice."""
    ledger, running = PageLedger(total), {}
    for number, (chain, published, which) in enumerate(acts):
        held = {other: ledger.lease(other) for other in running}
        if begin(ledger, number, chain):
            running[number] = chain
            if published:
                ledger.publish(number, names(chain))
        for other, pages in held.items():
            assert ledger.lease(other) == pages
            assert not set(pages) & set(ledger._cached)
        for other in list(running)[: which if which < 5 else 0]:
            end(ledger, other, running.pop(other))
        ledger.check()
        for page in ledger._cached:
            assert ledger.find(names(ledger._keys[page]))[-1:] == [page]
    for number, chain in running.items():
        end(ledger, number, chain)
    assert ledger.free == total


@given(st.integers(6, 14), st.lists(CHAINS, max_size=80))
def test_where_costs_are_equal_the_least_recently_used_goes_first(total, chains):
    ledger = PageLedger(total, cached=CachedPages(doubled=math.inf, most_uses=1))
    used = []  # the last is to go last
    for number, chain in enumerate(chains):
        wanted = names(chain)
        assert begin(ledger, number, chain)
        used = [name for name in used if name not in wanted]
        used = used[max(0, len(used) + len(wanted) - total) :]
        used += reversed(wanted)
        end(ledger, number, chain)
        assert {ledger._keys[page] for page in ledger._cached} == set(used)


def keep(pages, page, place, uses=1):
    for _ in range(uses - 1):
        pages.use(page)
    pages.renew(page, place, 0.0)
    pages.add(page)


def test_what_costs_more_or_is_asked_for_more_often_stays_but_not_for_ever():
    pages = CachedPages()
    keep(pages, 1, place=int(2 * DOUBLED))
    keep(pages, 2, place=0, uses=3)
    keep(pages, 3, place=0)
    assert [pages.evict(), pages.evict()] == [3, 1]
    for page in range(10, 20):
        keep(pages, page, place=0)
        if pages.evict() == 2:
            break
    assert 2 not in pages
    assert page < 19


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 300)), max_size=300))
def test_the_worth_of_a_page_never_falls_below_that_of_the_page_evicted_last(acts):
    pages, last = CachedPages(), 0.0
    for page, place in acts:
        if page in pages:
            pages.use(page)
        keep(pages, page, place)
        assert len(pages._heap) <= 2 * len(pages) + 65
        if place % 3 == 0:
            worth = min(pages._worth[each] for each in pages)
            assert worth >= last
            evicted = pages.evict()
            assert evicted not in pages
            last = worth
