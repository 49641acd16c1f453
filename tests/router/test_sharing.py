"""Prompts that begin alike are computed once, also when they come at the same time."""

from hypothesis import given
from hypothesis import strategies as st

from twinfer.policy.prefix import chain_root, common, extend_chain
from twinfer.policy.queueing import AGEING
from twinfer.policy.sharing import worth_waiting
from twinfer.router.memory import Cache
from twinfer.router.request import State

from .simulated import PAGE, Cluster, expected

SPLIT = {"prefill-0": "prefill", "decode-0": "decode"}
WIDE = {"prefill-0": "prefill", "prefill-1": "prefill", "decode-0": "decode"}
PROMPT = list(range(43))
PAGES = len(PROMPT) // PAGE


def computed(cluster):
    return sum(view.work.prompt_tokens for view in cluster.core.engines.values())


def right(requests):
    for request in requests:
        assert request.tokens == expected(request.generation, request.max_length)


def test_branches_of_one_prompt_compute_it_once():
    for roles in (SPLIT, WIDE):
        cluster = Cluster(roles, pages=90, backlog=1000)
        branches = [cluster.submit(PROMPT, 6, seed) for seed in range(5)]
        assert [branch.state for branch in branches] == [State.PREFILLING] + [State.QUEUED] * 4
        cluster.finish()
        assert computed(cluster) == len(PROMPT) + 4 * (len(PROMPT) - PAGES * PAGE)
        assert [branch.cached for branch in branches] == [0] + [PAGES * PAGE] * 4
        right(branches)


def test_they_hold_the_prompt_s_pages_once():
    cluster = Cluster(SPLIT, pages=90, backlog=1000)
    branches = [cluster.submit(PROMPT, 30, seed) for seed in range(4)]
    while not all(branch.state is State.DECODING for branch in branches):
        cluster.turn("prefill-0")
    own = sum(cluster.ledger.held(branch.id) for branch in branches)
    assert cluster.ledger.total - cluster.ledger.free == own - 3 * PAGES
    assert len(cluster.ledger.shared) == PAGES
    for branch in branches:
        cluster.event(cluster.core.cancel, branch.id)
        cluster.event(cluster.core.cancel, branch.id)
    cluster.finish()


def test_without_a_cache_only_answers_of_one_call_share():
    cluster = Cluster(SPLIT, pages=90, backlog=1000, cache=Cache())
    own, other = [[cluster.submit(PROMPT, 3, family=family) for _ in range(2)] for family in "ab"]
    alone = [cluster.submit(PROMPT, 3) for _ in range(2)]
    cluster.finish()
    assert [request.cached for request in (*own, *other, *alone)] == [0, 40, 0, 40, 0, 0]
    right([*own, *other, *alone])


def test_salts_are_not_waited_for():
    cluster = Cluster(SPLIT, pages=90, backlog=1000)
    requests = [cluster.submit(PROMPT, 3, salt=salt) for salt in "ab"]
    assert all(request.state is State.PREFILLING for request in requests)
    cluster.finish()
    right(requests)


def test_little_in_common_is_not_waited_for():
    cluster = Cluster(SPLIT, pages=90, backlog=1000, chunk=8)
    first = cluster.submit(PROMPT, 3)
    same = cluster.submit([*PROMPT[:24], *[1] * 8], 3)
    other = cluster.submit([*PROMPT[:8], *[1] * 30], 3)
    assert [r.state for r in (first, same, other)] == [State.PREFILLING, State.QUEUED, State.PREFILLING]
    cluster.finish()
    right([first, same, other])
    assert same.cached == 24


def test_what_is_shared_is_taken_up_as_soon_as_it_is_there():
    """A question about the beginning of a long text does not wait for the end of it."""
    cluster = Cluster(SPLIT, pages=90, backlog=1000, chunk=8)
    long = cluster.submit(list(range(80)), 3)
    short = cluster.submit([*range(16), 1], 3)
    while short.state is State.QUEUED:
        cluster.turn("prefill-0")
    assert long.computed == 16
    assert short.cached == 16
    cluster.finish()
    right([long, short])


def begun(chunks=2):
    """Two branches, of which the first has computed some of the prompt."""
    cluster = Cluster(SPLIT, pages=90, backlog=1000, chunk=8)
    first, second = (cluster.submit(PROMPT, 6, seed) for seed in range(2))
    for _ in range(chunks):
        cluster.turn("prefill-0")
    assert (first.computed, second.state) == (8 * chunks, State.QUEUED)
    return cluster, first, second


def test_a_cancelled_branch_leaves_the_others_what_it_had():
    cluster, first, second = begun()
    cluster.event(cluster.core.cancel, first.id)
    assert second.state is State.PREFILLING
    cluster.finish()
    assert second.cached == 16
    right([second])


def test_a_dead_engine_keeps_nobody_waiting():
    cluster, first, second = begun()
    cluster.kill("prefill-0")
    cluster.finish()
    right([first, second])
    assert second.cached == PAGES * PAGE
    # The chunk under way when it died: 8 tokens.
    assert cluster.core.tallies.recomputed_tokens == 8


def test_a_stale_page_is_computed_again_by_whoever_comes_first():
    cluster, first, second = begun()
    page = cluster.ledger.lease(first.id)[0]
    cluster.stamps[page] += 1
    cluster.pool[page] = -7
    cluster.finish()
    right([first, second])
    assert cluster.core.tallies.stale == 1
    assert cluster.core.tallies.recomputed_tokens == 16


def test_preempted_work_is_counted_when_it_is_done_again():
    """Without a cache everything that a victim had is computed again."""
    cluster = Cluster({"mixed-0": "mixed"}, pages=12, slots=4, cache=Cache())
    requests = [cluster.submit([n] * 12, 30) for n in range(4)]
    cluster.finish()
    right(requests)
    prompts = sum(request.prompt_tokens for request in requests)
    answers = sum(len(request.tokens) - request.prompt_tokens for request in requests)
    work = cluster.core.engines["mixed-0"].work
    assert cluster.core.tallies.preemptions > 0
    # An answer's last token is never computed, and its first comes with the prompt.
    once = prompts + answers - len(requests)
    assert work.prompt_tokens + work.decode_tokens - once == cluster.core.tallies.recomputed_tokens > 0


def test_a_branch_is_not_refused_for_work_that_it_shares():
    cluster = Cluster(SPLIT, pages=90, backlog=1000, chunk=8)
    cluster.submit(PROMPT, 2)
    cluster.finish()
    rate = cluster.core.engines["prefill-0"].costs.rate
    other = [token + 1 for token in PROMPT]
    first, second, third = (cluster.submit(other, 6, seed) for seed in range(3))
    waits = cluster.core.expected_ttft(third)
    assert first.state is State.PREFILLING
    assert waits == (len(other) + 2 * (len(other) - PAGES * PAGE)) / rate
    cluster.finish()
    right([first, second, third])


@given(
    st.lists(st.tuples(st.integers(1, 30), st.integers(-2, 2)), max_size=8),
    st.integers(0, 6),
    st.integers(1, 30),
    st.integers(-2, 2),
)
def test_no_prompt_is_sooner_than_the_least_to_be_expected(asked, turns, length, priority):
    cluster = Cluster(SPLIT, pages=90)
    for number, (tokens, urgency) in enumerate(asked):
        cluster.submit([number] * tokens, 3, priority=urgency)
    for _ in range(turns):
        cluster.turn("prefill-0")
    least = cluster.core.least_ttft(priority, cluster.now + 1)
    probe = cluster.submit([50] * length, 3, priority=priority)
    assert least <= cluster.core.expected_ttft(probe)
    cluster.finish()


@given(st.integers(0, 9000), st.integers(1, 9000), st.floats(-1e4, 1e4))
def test_waiting_saves_half_and_has_an_end(coming, own, behind):
    waits = worth_waiting(coming, own, behind)
    assert not (waits and coming < own / 2)
    assert not (waits and behind > coming / AGEING)
    assert worth_waiting(own, own, 0.0)


@given(st.lists(st.integers(0, 1), max_size=40), st.lists(st.integers(0, 1), max_size=40))
def test_common_pages_of_two_chains(one, other):
    chains = []
    for tokens in (one, other):
        chains.append([])
        extend_chain(chains[-1], chain_root("model"), tokens, 3)
    same = 0
    while same < min(map(len, chains)) and one[: 3 * same + 3] == other[: 3 * same + 3]:
        same += 1
    assert common(*chains) == same


@given(
    st.lists(st.tuples(st.integers(1, 40), st.integers(0, 3), st.integers(1, 3)), min_size=1, max_size=6),
    st.sampled_from([SPLIT, WIDE]),
    st.integers(0, 9),
    st.integers(20, 90),
    st.data(),
)
def test_fan_outs_of_all_kinds(asked, roles, chunk, pages, data):
    """Prompts that begin alike, several times each, some of them cancelled: each ends once, as alone."""
    cluster = Cluster(
        roles, pages=pages, chunk=chunk, cache=data.draw(st.sampled_from([Cache(), Cache("m")]))
    )
    requests = [
        cluster.submit([*range(length), tail], 9, seed, family="f")
        for length, tail, copies in asked
        for seed in range(copies)
    ]
    for request in data.draw(st.lists(st.sampled_from(requests), max_size=4)):
        for _ in range(data.draw(st.integers(0, 5))):
            cluster.turn(data.draw(st.sampled_from(sorted(roles))), data.draw(st.integers(0, 3)))
        cluster.event(cluster.core.cancel, request.id)
    cluster.finish()
    assert sorted(request.id for request in cluster.ended) == [request.id for request in requests]
    right([request for request in requests if request.finish_reason != "cancelled"])
