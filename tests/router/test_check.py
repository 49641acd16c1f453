"""The checker finds each kind of broken state, made by hand in a running cluster."""

import pytest

from twinfer.router.check import check
from twinfer.router.request import Departure, State

from .simulated import Cluster


def running():
    """A cluster with requests in prefill (2), decode (1, which shares pages with 2) and the queue (3)."""
    cluster = Cluster({"prefill-0": "prefill", "decode-0": "decode"}, pages=24, backlog=4, chunk=4)
    cluster.submit([7] * 10, 20)
    for _ in range(12):
        cluster.turn("prefill-0")
        cluster.turn("decode-0")
    for _ in range(2):
        cluster.submit([7] * 14, 20)
    core = cluster.core
    states = [core.requests[number].state for number in (1, 2, 3)]
    assert states == [State.DECODING, State.PREFILLING, State.QUEUED]
    assert core.memory.ledger.shared
    check(core)
    return core


def lose_a_page(core):
    core.memory.ledger._free.pop()


def free_a_leased_page(core):
    core.memory.ledger._free.append(core.memory.ledger.lease(1)[0])


def leave_the_queue(core):
    core.queue.clear()


def queue_what_runs(core):
    core.queue.append(core.requests[1])


def be_in_two_views(core):
    core.engines["prefill-0"].prefilling[1] = core.requests[1]


def be_in_the_other_phase(core):
    view = core.engines["decode-0"]
    view.prefilling[1] = view.decoding.pop(1)


def be_forgotten_by_the_engine(core):
    core.engines["decode-0"].decoding.clear()


def name_another_engine(core):
    core.requests[1].engine = "prefill-0"


def be_held_as_another(core):
    view = core.engines["decode-0"]
    view.decoding[9] = view.decoding.pop(1)


def hold_pages_when_gone(core):
    core.memory.ledger.grant(77, 1)


def have_kv_without_pages(core):
    core.requests[1].computed = len(core.requests[1].tokens)
    core.memory.ledger.release(1)


def hold_more_pages_than_it_can_use(core):
    core.memory.ledger.grant(1, 8)


def share_a_page_that_is_not_full(core):
    core.requests[2].computed = 3


def share_a_page_of_other_tokens(core):
    core.requests[2].tokens[0] = 1


def have_kv_of_tokens_that_are_not_there(core):
    core.requests[1].computed = len(core.requests[1].tokens) + 1


def leave_without_a_reason(core):
    core.requests[1].state = State.LEAVING


def go_on_when_finished(core):
    core.requests[1].finish_reason = "stop"


def depart_without_leaving(core):
    core.requests[1].departure = Departure.MOVE


def starve_in_the_queue(core):
    core.memory.starved[3] = core.requests[3]


def starve_when_gone(core):
    core.memory.starved[50] = core.requests[1]


def be_too_long(core):
    core.requests[1].tokens += [1] * 30


@pytest.mark.parametrize(
    "damage",
    [
        lose_a_page,
        free_a_leased_page,
        leave_the_queue,
        queue_what_runs,
        be_in_two_views,
        be_in_the_other_phase,
        be_forgotten_by_the_engine,
        name_another_engine,
        be_held_as_another,
        hold_pages_when_gone,
        have_kv_without_pages,
        hold_more_pages_than_it_can_use,
        share_a_page_that_is_not_full,
        share_a_page_of_other_tokens,
        have_kv_of_tokens_that_are_not_there,
        leave_without_a_reason,
        go_on_when_finished,
        depart_without_leaving,
        starve_in_the_queue,
        starve_when_gone,
        be_too_long,
    ],
    ids=lambda damage: damage.__name__,
)
def test_damage_is_found(damage):
    core = running()
    damage(core)
    with pytest.raises(AssertionError, match=r"^[^\n]+"):
        check(core)
