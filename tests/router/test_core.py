"""The router's core against simulated engines: nothing lost, nothing wrong, whatever happens."""

from hypothesis import given
from hypothesis import strategies as st

from .simulated import VOCAB, Cluster, expected

SPLIT = {"prefill-0": "prefill", "decode-0": "decode"}
WIDE = {"prefill-0": "prefill", "prefill-1": "prefill", "decode-0": "decode", "decode-1": "decode"}
MIXED = {"mixed-0": "mixed"}
PROMPTS = st.lists(st.integers(0, VOCAB - 1), min_size=1, max_size=30)
REQUESTS = st.lists(st.tuples(PROMPTS, st.integers(1, 25), st.integers(0, 3)), min_size=1, max_size=12)
ROLES = st.sampled_from([SPLIT, WIDE, MIXED])


def check(request):
    assert request.finish_reason in ("stop", "length")
    assert request.tokens == expected(request.generation, request.max_length)


@given(ROLES, REQUESTS, st.integers(15, 60), st.integers(0, 9))
def test_answers_do_not_depend_on_engines_chunks_or_the_pool(roles, asked, pages, chunk):
    """Pools are small enough here that requests are preempted and computed again."""
    cluster = Cluster(roles, pages=pages, chunk=chunk)
    requests = [cluster.submit(prompt, most, seed, (5, 6)) for prompt, most, seed in asked]
    cluster.finish()
    for request in requests:
        check(request)


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


@given(ROLES, REQUESTS, st.data())
def test_a_dead_engine_costs_time_but_no_token(roles, asked, data):
    cluster = Cluster(roles, pages=25)
    requests = [cluster.submit(prompt, most, seed) for prompt, most, seed in asked]
    for _ in range(data.draw(st.integers(0, 30))):
        cluster.turn(data.draw(st.sampled_from(sorted(roles))), data.draw(st.integers(0, 3)))
    victim = data.draw(st.sampled_from(sorted(roles)))
    cluster.kill(victim)
    cluster.start(victim)
    cluster.finish()
    for request in requests:
        check(request)


def test_a_request_that_kills_two_engines_is_failed_alone():
    cluster = Cluster(MIXED, pages=20)
    poison = cluster.submit([1, 2, 3], 20)
    for _ in range(2):
        cluster.turn("mixed-0")
        cluster.kill("mixed-0")
        cluster.start("mixed-0")
    other = cluster.submit([4, 5, 6], 20)
    cluster.finish()
    assert poison.finish_reason == "error"
    assert "2 engines died" in poison.error
    check(other)


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
    assert cluster.core.preemptions > 0
    assert cluster.ended[0] is requests[0]
    for request in requests:
        check(request)
