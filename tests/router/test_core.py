"""The router's core against simulated engines: nothing lost, nothing wrong, whatever happens."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinfer.policy.poison import CRASH, KILLED
from twinfer.policy.prefix import chain_root, extend_chain
from twinfer.router.memory import Cache
from twinfer.router.request import State

from .simulated import PAGE, VOCAB, Cluster, expected

SPLIT = {"prefill-0": "prefill", "decode-0": "decode"}
WIDE = {"prefill-0": "prefill", "prefill-1": "prefill", "decode-0": "decode", "decode-1": "decode"}
MIXED = {"mixed-0": "mixed"}
PROMPTS = st.lists(st.integers(0, VOCAB - 1), min_size=1, max_size=30)
REQUESTS = st.lists(st.tuples(PROMPTS, st.integers(1, 25), st.integers(0, 3)), min_size=1, max_size=12)
ROLES = st.sampled_from([SPLIT, WIDE, MIXED])


CACHES = st.sampled_from([Cache(), Cache(root="model")])


def check(request, precisions=(0, 0)):
    assert request.finish_reason in ("stop", "length")
    assert request.tokens == expected(request.generation, request.max_length, precisions)


def write(cluster, request, length):
    """Let a prefill and a decode engine work until the request has so many tokens."""
    while len(request.tokens) < length:
        for name in SPLIT:
            cluster.turn(name)


@given(ROLES, REQUESTS, st.integers(15, 60), st.integers(0, 9), CACHES)
def test_answers_do_not_depend_on_engines_chunks_cache_or_the_pool(roles, asked, pages, chunk, cache):
    """Pools are small enough here that requests are preempted and computed again."""
    cluster = Cluster(roles, pages=pages, chunk=chunk, cache=cache)
    requests = [cluster.submit(prompt, most, seed, (5, 6)) for prompt, most, seed in asked]
    cluster.finish()
    for request in requests:
        check(request)


@given(ROLES, REQUESTS, st.integers(15, 60), st.integers(0, 9))
def test_nor_where_the_phases_differ_in_precision(roles, asked, pages, chunk):
    """KV of a prompt is prefill's, KV of an answer decode's, also after preemption and from the cache."""
    cache = Cache(root="model", same_precision=False)
    cluster = Cluster(roles, pages=pages, chunk=chunk, cache=cache, precisions=(1, 2))
    first = [cluster.submit(prompt, most, seed) for prompt, most, seed in asked]
    cluster.finish()
    again = [cluster.submit(request.tokens, 9) for request in first if len(request.tokens) < pages * PAGE]
    cluster.finish()
    for request in first + again:
        check(request, (1, 2))


def test_a_prefix_is_computed_once():
    cluster = Cluster(SPLIT, pages=30)
    first = cluster.submit(list(range(18)), 7)
    cluster.finish()
    turn = cluster.submit([*first.tokens, 1, 2, 3], 5)
    cluster.finish()
    # All but the last token of the first turn has KV, in whole pages.
    assert turn.cached == (len(first.tokens) - 1) // PAGE * PAGE
    assert first.cached == 0
    check(turn)
    same = cluster.submit(list(range(18)), 7)
    cluster.finish()
    assert same.cached == 16
    check(same)


def test_a_cached_prompt_leaves_prefill_a_token():
    cluster = Cluster(SPLIT, pages=30)
    for expected_hits in (0, 4):
        request = cluster.submit([7] * 8, 1)
        cluster.finish()
        assert request.cached == expected_hits
        check(request)


def test_requests_share_pages_while_they_run():
    cluster = Cluster(SPLIT, pages=40)
    first = cluster.submit([3] * 40, 8)
    while not first.timeline.first_token:
        cluster.turn("prefill-0")
    free = cluster.ledger.free
    second = cluster.submit([3] * 41, 8)
    assert second.cached == 40
    assert free - cluster.ledger.free == 2
    cluster.finish()
    check(first)
    check(second)


def test_salts_separate_tenants_and_the_cache_can_be_off():
    cluster = Cluster(SPLIT, pages=40)
    hits = []
    for salt in ("a", "b", "a"):
        hits.append(cluster.submit([5] * 12, 2, salt=salt))
        cluster.finish()
    assert [request.cached for request in hits] == [0, 0, 8]
    cluster = Cluster(SPLIT, pages=40, cache=Cache())
    for _ in range(2):
        request = cluster.submit([5] * 12, 2)
        cluster.finish()
        assert request.cached == 0


def test_what_was_used_last_is_evicted_last_and_the_end_before_the_beginning():
    cluster = Cluster(SPLIT, pages=9)
    for token in (1, 2):
        cluster.submit([token] * 12, 1)
        cluster.finish()
    cluster.submit([3] * 13, 4)
    cluster.finish()
    left = []
    for token in (1, 2):
        keys = []
        extend_chain(keys, chain_root("model", ""), [token] * 12, PAGE)
        left.append(len(cluster.ledger.find(keys)))
    assert left == [1, 3]


def test_an_engine_may_end_an_answer_that_was_cancelled_meanwhile():
    cluster = Cluster({"mixed-0": "mixed"}, pages=20)
    request = cluster.submit([3] * 5, 4)
    cluster.turn("mixed-0")
    cluster.event(cluster.core.cancel, request.id)
    for messages in (1, 0, 0):  # It hears that it is to decode, not of the cancel.
        cluster.turn("mixed-0", messages)
    cluster.finish()
    assert request.finish_reason == "cancelled"


@given(ROLES, REQUESTS, st.data())
def test_cancelling_anywhere_frees_the_pages_and_harms_nobody(roles, asked, data):
    cluster = Cluster(roles, pages=20)
    requests = [cluster.submit(prompt, most, seed) for prompt, most, seed in asked]
    cancelled = set()
    for _ in range(data.draw(st.integers(0, 40))):
        if data.draw(st.booleans()):
            request = data.draw(st.sampled_from(requests))
            cancelled.add(request.id)
            cluster.event(cluster.core.cancel, request.id)
        else:
            cluster.turn(data.draw(st.sampled_from(sorted(roles))), data.draw(st.integers(0, 3)))
    cluster.finish()
    for request in requests:
        if request.finish_reason != "cancelled":
            check(request)
        else:
            assert request.id in cancelled


@given(ROLES, REQUESTS, st.booleans(), st.data())
def test_a_dead_engine_costs_time_but_no_token(roles, asked, same_precision, data):
    """Engines die between steps, in steps, and before they have heard all; some come back, some do not."""
    precisions = (0, 0) if same_precision else (1, 2)
    cache = Cache(root="model", same_precision=same_precision)
    cluster = Cluster(roles, pages=25, cache=cache, precisions=precisions)
    requests = [cluster.submit(prompt, most, seed) for prompt, most, seed in asked]
    stays_away = data.draw(st.booleans()) and len(roles) > 1
    victim = data.draw(st.sampled_from(sorted(roles)))
    for _ in range(data.draw(st.integers(0, 30))):
        cluster.turn(data.draw(st.sampled_from(sorted(roles))), data.draw(st.integers(0, 3)))
    cluster.kill(victim, midstep=data.draw(st.booleans()))
    for _ in range(data.draw(st.integers(0, 10))):
        cluster.turn(data.draw(st.sampled_from(sorted(cluster.engines)))) if cluster.engines else None
    if not stays_away:
        cluster.start(victim)
    cluster.finish()
    for request in requests:
        check(request, precisions)


@given(ROLES, REQUESTS, st.data())
def test_draining_and_changing_roles_loses_nothing(roles, asked, data):
    cluster = Cluster(roles, pages=25)
    requests = [cluster.submit(prompt, most, seed) for prompt, most, seed in asked]
    for _ in range(data.draw(st.integers(0, 40))):
        engine = data.draw(st.sampled_from(sorted(roles)))
        act = data.draw(st.sampled_from(["turn", "turn", "turn", "drain", "resume", "role"]))
        if act == "turn":
            cluster.turn(engine, data.draw(st.integers(0, 3)))
        elif act == "role":
            role = data.draw(st.sampled_from(["prefill", "decode", "mixed"]))
            cluster.event(cluster.core.set_role, engine, role)
        else:
            cluster.event(cluster.core.set_draining, engine, act == "drain")
    for engine in roles:
        cluster.event(cluster.core.set_draining, engine, False)
    cluster.finish()
    for request in requests:
        check(request)


def four_answers_under_way():
    cluster = Cluster(WIDE, pages=40)
    requests = [cluster.submit([n] * 9, 20) for n in range(4)]
    while not all(len(request.tokens) > 12 for request in requests):
        for name in WIDE:
            cluster.turn(name)
    return cluster, requests


def test_a_drained_engine_is_empty_after_a_step_and_its_requests_keep_their_kv():
    cluster, requests = four_answers_under_way()
    before = sum(view.work.prompt_tokens for view in cluster.core.engines.values())
    cluster.event(cluster.core.set_draining, "decode-0", True)
    cluster.turn("decode-0")
    assert not cluster.core.engines["decode-0"].held
    cluster.finish()
    assert sum(view.work.prompt_tokens for view in cluster.core.engines.values()) == before
    assert cluster.core.tallies.moves == 2
    for request in requests:
        check(request)


def test_a_dead_decode_engine_costs_no_more_than_its_last_step():
    cluster, requests = four_answers_under_way()
    computed = sum(view.work.prompt_tokens for view in cluster.core.engines.values())
    cluster.kill("decode-0")
    cluster.finish()
    views = cluster.core.engines.values()
    assert sum(view.work.prompt_tokens for view in views) == computed
    assert cluster.core.tallies.recomputed_tokens == 2
    for request in requests:
        check(request)


def test_with_one_engine_left_it_serves_both_phases_until_the_other_is_back():
    cluster = Cluster(SPLIT, pages=40)
    requests = [cluster.submit([n] * 9, 30) for n in range(3)]
    cluster.turn("prefill-0")
    cluster.kill("decode-0")
    for _ in range(20):
        cluster.turn("prefill-0")
    assert all(len(request.tokens) > 12 for request in requests)
    cluster.start("decode-0")
    for _ in range(3):
        cluster.turn("prefill-0")
    assert not cluster.core.engines["prefill-0"].decoding
    cluster.finish()
    for request in requests:
        check(request)


@pytest.mark.parametrize(
    "kinds",
    [[CRASH, CRASH], [KILLED] * 4, [KILLED, CRASH, KILLED], [KILLED, CRASH, CRASH]],
    ids=lambda kinds: "-".join("crash" if kind == CRASH else "killed" for kind in kinds),
)
def test_a_request_that_kills_two_engines_is_failed_alone(kinds):
    """At its 5th token whatever engine computes it dies, among others that run beside it. Deaths that are
    no crashes have to be twice as many before it is blamed."""
    cluster = Cluster(MIXED, pages=60, slots=20)
    requests = [cluster.submit([n] * 6, 12) for n in range(6)]
    poison = requests[2]
    deaths = 0
    for _ in range(400):
        if "mixed-0" not in cluster.engines:
            cluster.start("mixed-0")
        engine = cluster.engines["mixed-0"]
        for message in list(cluster.inbox["mixed-0"]):
            cluster.inbox["mixed-0"].popleft()
            answer = engine.take(message)
            if answer is not None:
                cluster.event(cluster.core.on_released, answer.request, answer.placement)
        plan = engine._plan()
        if poison.computed == 9 and any(number == poison.id for number, _ in plan.decodes):
            cluster.kill("mixed-0", suspicion=kinds[deaths])
            deaths += 1
        else:
            cluster.turn("mixed-0")
    assert deaths == len(kinds)
    assert poison.finish_reason == "error"
    assert "one engine after the other died" in poison.error
    for request in requests:
        if request is not poison:
            check(request)
    assert cluster.ledger.free == cluster.ledger.total


def test_a_page_with_another_owner_is_noticed_and_computed_again():
    cluster = Cluster(SPLIT, pages=40)
    request = cluster.submit([3] * 9, 20)
    write(cluster, request, 14)
    page = cluster.ledger.lease(request.id)[0]
    cluster.stamps[page] += 1
    cluster.pool[page] = -7
    cluster.finish()
    assert cluster.core.tallies.stale == 1
    check(request)


def test_the_first_token_comes_before_decode_starts():
    cluster = Cluster(SPLIT, pages=20)
    request = cluster.submit([1, 2, 3], 5)
    cluster.turn("prefill-0")
    assert len(request.tokens) == 4
    assert request.timeline.first_token > 0
    assert request.timeline.decode_began == 0
    cluster.finish()
    check(request)
    times = request.timeline
    assert times.arrived <= times.prefill_sent <= times.first_token <= times.decode_sent <= times.finished
    assert times.tokens == 5


def test_the_oldest_is_never_preempted_and_order_is_kept():
    cluster = Cluster(MIXED, pages=12, slots=4)
    requests = [cluster.submit([n] * 12, 30) for n in range(4)]
    cluster.finish()
    assert cluster.core.tallies.preemptions > 0
    assert cluster.ended[0] is requests[0]
    for request in requests:
        check(request)


def first_tokens(cluster, requests):
    """The requests in the order of their first tokens."""
    cluster.finish()
    for request in requests:
        check(request)
    return sorted(requests, key=lambda request: request.timeline.first_token)


def test_a_short_prompt_passes_a_long_one_that_an_engine_is_computing():
    cluster = Cluster(SPLIT, pages=60)
    cluster.tick = 0.001
    long = cluster.submit([1] * 100, 3)
    cluster.turn("prefill-0")
    assert 0 < long.computed < 100
    short = cluster.submit([2] * 4, 3)
    cluster.turn("prefill-0")
    assert short.begun
    assert not long.begun
    assert first_tokens(cluster, [long, short]) == [short, long]


def test_who_can_still_be_in_time_goes_before_who_cannot():
    cluster = Cluster(SPLIT, pages=60, backlog=1)
    first = cluster.submit([1] * 40, 2, slo_ttft=1000.0)
    late = cluster.submit([2] * 20, 2, slo_ttft=2.0)
    never = cluster.submit([3] * 20, 2, timeout=3.0)
    cluster.now += 3
    others = [cluster.submit([n] * 24, 2, slo_ttft=1000.0) for n in (4, 5)]
    assert [request.late for request in (first, late, never, *others)] == [False, True, True, False, False]
    assert first_tokens(cluster, [first, late, never, *others]) == [first, *others, late, never]


def test_what_is_cached_makes_a_prompt_short():
    cluster = Cluster(SPLIT, pages=60, backlog=1)
    cluster.submit([1] * 60, 1)
    cluster.finish()
    cluster.tick = 0.001
    busy, fresh, turn = (cluster.submit([n] * length, 2) for n, length in ((2, 30), (3, 60), (1, 60)))
    assert [request.state for request in (busy, fresh, turn)] == [
        State.PREFILLING,
        State.QUEUED,
        State.PREFILLING,
    ]
    assert first_tokens(cluster, [busy, fresh, turn]) == [turn, busy, fresh]


@given(ROLES, st.sampled_from([600.0, 86400.0 * 400]), st.lists(PROMPTS, min_size=1, max_size=4))
def test_after_a_long_idle_time_it_works_at_once(roles, gap, prompts):
    """As many turns of the engines as before, nothing lost, and the cache still there."""

    def turns():
        requests = [cluster.submit(prompt, 8) for prompt in prompts]
        count = 0
        while cluster.core.requests:
            for name in roles:
                cluster.turn(name)
            count += 1
        for request in requests:
            check(request)
        return count, requests

    cluster = Cluster(roles, pages=60)
    turns()
    before, _ = turns()
    cluster.now += gap
    assert cluster.core.least_ttft(0, cluster.now) == 0
    after, requests = turns()
    assert after == before
    assert all(request.timeline.ttft < 100 for request in requests)
    assert cluster.core.tallies.losses == cluster.core.tallies.recomputed_tokens == 0


def test_a_request_without_a_page_waits_with_those_it_has_while_others_get_on():
    """The pool is full when the first needs another page; the second ends and leaves its own."""
    cluster = Cluster(SPLIT, pages=10, cache=Cache())
    first, second = cluster.submit([1] * 12, 20), cluster.submit([2] * 12, 8)
    starved = 0
    while cluster.core.requests:
        for name in SPLIT:
            cluster.turn(name)
        starved += bool(cluster.core.memory.stuck())
    assert starved > 0
    assert cluster.core.tallies.preemptions == 0
    check(first)
    check(second)


def test_the_least_important_gives_its_pages_up_though_it_is_older():
    cluster = Cluster(SPLIT, pages=12, cache=Cache())
    cluster.tick = 0.001
    low = cluster.submit([1] * 12, 30, priority=1)
    high = cluster.submit([2] * 12, 30)
    cluster.finish()
    assert cluster.core.tallies.preemptions > 0
    assert cluster.ended == [high, low]
    check(low)
    check(high)


def test_a_page_that_is_lost_within_a_step_makes_no_answer():
    """Its new owner writes while the step reads: noticed at the end of the step."""
    cluster = Cluster(SPLIT, pages=40)
    request = cluster.submit([3] * 9, 20)
    write(cluster, request, 14)
    model = cluster.models[0]
    compute, page = model.forward, cluster.ledger.lease(request.id)[1]

    def robbed(*batch):
        cluster.stamps[page] += 1
        cluster.pool[page] = -7
        model.forward = compute
        return compute(*batch)

    model.forward = robbed
    cluster.finish()
    assert cluster.core.tallies.stale == 1
    assert cluster.core.tallies.recomputed_tokens > 0
    check(request)


@given(ROLES, REQUESTS, st.integers(0, 40), st.data())
def test_a_cancelled_request_has_no_pages_after_two_steps(roles, asked, turns, data):
    """Whatever it was doing; and no token of it is computed after that."""
    cluster = Cluster(roles, pages=25)
    requests = [cluster.submit(prompt, most, seed) for prompt, most, seed in asked]
    for _ in range(turns):
        cluster.turn(data.draw(st.sampled_from(sorted(roles))), data.draw(st.integers(0, 3)))
    request = data.draw(st.sampled_from(requests))
    ended = request.finish_reason is not None
    cluster.event(cluster.core.cancel, request.id)
    for _ in range(2):
        for name in roles:
            cluster.turn(name)
    assert cluster.ledger.held(request.id) == 0
    assert all(engine.room(request.id) is None for engine in cluster.engines.values())
    assert ended or request.finish_reason in ("cancelled", "stop", "length")
    cluster.finish()


@given(st.sampled_from(["decode-0", "decode-1"]), st.sampled_from(["drain", "prefill", "mixed"]))
def test_a_change_delays_no_answer_by_more_than_two_steps(engine, change):
    cluster, requests = four_answers_under_way()
    before = [len(request.tokens) for request in requests]
    if change == "drain":
        cluster.event(cluster.core.set_draining, engine, True)
    else:
        cluster.event(cluster.core.set_role, engine, change)
    for _ in range(3):
        for name in WIDE:
            cluster.turn(name)
    assert all(len(r.tokens) > had for r, had in zip(requests, before, strict=True))
    cluster.finish()
    for request in requests:
        check(request)
