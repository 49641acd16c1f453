import math
import signal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinfer.policy.admission import Room, admits
from twinfer.policy.batching import WHOLE_PROMPTS_BUDGET, Item, plan_step
from twinfer.policy.chunking import LEAST as LEAST_STEP
from twinfer.policy.chunking import SHARE, step_tokens
from twinfer.policy.costs import smooth_rate
from twinfer.policy.health import OWN_PAUSE, SILENCE, hung
from twinfer.policy.overload import expected_ttft, retry_after, slot_wait
from twinfer.policy.pacing import LEAST, MOST, Pace, lend_until, next_step
from twinfer.policy.poison import CRASH, KILLED, suspicion
from twinfer.policy.preemption import choose_victim, rank
from twinfer.policy.queueing import AGEING, LATE, due, is_late, turn
from twinfer.policy.restart import DELAYS, REDEEMED_BY, count_death, restart_delay
from twinfer.policy.routing import Load, route_decode, route_prefill

ITEMS = st.lists(st.builds(Item, st.integers(), st.integers(1, 3000), st.integers(0, 4000)), max_size=20)


@given(ITEMS, ITEMS, st.integers(1, 600), st.integers(1, 8))
def test_a_step_stays_within_its_budget_and_its_pages(prompts, decodes, chunk, most):
    plan = plan_step(prompts, decodes, chunk=chunk, max_batch=most)
    assert sum(count for _, count in plan.prompts) <= chunk
    assert len(plan.decodes) <= most
    room = {item.request: (item.pending, item.room) for item in reversed(prompts)}
    assert all(count > 0 for _, count in plan.prompts)
    prompts = sorted(prompts, key=lambda item: turn(item.arrived, item.pending, item.priority))
    if len(room) == len(prompts):
        assert all(count <= min(room[request]) for request, count in plan.prompts)
        runnable = [item for item in prompts if item.room > 0]
        assert [request for request, _ in plan.prompts] == [
            item.request for item in runnable[: len(plan.prompts)]
        ]
        assert bool(plan.prompts) == bool(runnable)


@given(st.integers(1, 2048), st.floats(0, 1e5), st.floats(0, 100), st.floats(0, 100))
def test_a_step_is_as_large_as_the_tightest_target_lets_it_be(most, rate, target, more):
    tokens = step_tokens(most, rate, target)
    assert min(most, LEAST_STEP) <= tokens <= most
    assert tokens <= step_tokens(most, rate, target + more)
    assert step_tokens(most, rate, math.inf) == step_tokens(most, 0.0, target) == most
    if tokens > LEAST_STEP and rate > 0:
        assert tokens <= SHARE * target * rate


def test_prompts_that_are_due_soon_make_all_steps_small():
    relaxed, tight = Item(1, 2000, 4000, 5.0, 0, 8.0), Item(2, 3000, 4000, 6.0, 0, 6.3)

    def carried(*prompts):
        plan = plan_step(prompts, [], chunk=512, max_batch=1, now=6.0, rate=4000.0)
        return sum(count for _, count in plan.prompts)

    assert carried(relaxed) == 512
    assert carried(relaxed, tight) == carried(tight) == 239


@given(ITEMS, ITEMS)
def test_without_chunks_prompts_stay_whole_and_go_alone(prompts, decodes):
    plan = plan_step(prompts, decodes, chunk=0, max_batch=64)
    whole = {(item.request, item.pending) for item in prompts if item.room >= item.pending}
    assert set(plan.prompts) <= whole
    assert not (plan.prompts and plan.decodes)
    assert bool(plan.prompts) == bool(whole)
    assert len(plan.prompts) <= 1 or sum(count for _, count in plan.prompts) <= WHOLE_PROMPTS_BUDGET


@given(st.floats(0, 1e6), st.integers(1, 8192), st.integers(1, 8192), st.floats(0, 100))
def test_a_short_prompt_overtakes_and_a_long_one_does_not_starve(arrived, long, short, later):
    """Whoever arrives after a request's turn comes after it, however short."""
    patience = turn(arrived, long, 0) - arrived
    assert (turn(arrived + later, short, 0) >= turn(arrived, long, 0)) == (
        later + short / AGEING >= patience
    ) or abs(later + short / AGEING - patience) < 1e-3
    assert turn(arrived, short, -1) < turn(arrived + 9.9, short, 0)


@given(
    st.lists(st.tuples(st.floats(0, 9), st.integers(1, 3000), st.floats(0.5, 9)), min_size=1, max_size=12),
    st.floats(0, 20),
    st.floats(100, 5000),
)
def test_who_is_late_anyway_makes_nobody_else_late(asked, now, rate):
    """In the planned order every request that could be in time comes before all that cannot."""
    items = [Item(i, n, n, at, 0, due(at, target, None), 1) for i, (at, n, target) in enumerate(asked)]
    late = {item.request for item in items if is_late(now, item.pending, rate, item.due)}
    plan = plan_step(items, [], chunk=512, max_batch=1, now=now, rate=rate)
    assert len(plan.prompts) == len(items)
    order = [request in late for request, _ in plan.prompts]
    assert order == sorted(order)
    for group in (True, False):
        turns = [turn(asked[r][0], asked[r][1], 0) for r, _ in plan.prompts if (r in late) == group]
        assert turns == sorted(turns)


def test_being_late_ages_too():
    assert turn(0.0, 100, 0, late=True) < turn(LATE + 1, 100, 0)


def test_due_is_the_target_with_a_margin_or_the_timeout_if_that_is_sooner():
    assert 10.0 < due(10.0, 2.0, None) < 12.0
    assert due(10.0, 2.0, 1.0) == 11.0
    assert due(10.0, None, None) == math.inf
    assert is_late(10.0, 1000, 500.0, 11.9)
    assert not is_late(10.0, 1000, 500.0, 12.0)
    assert not is_late(10.0, 1000, 0.0, 11.9)
    assert is_late(12.0, 1000, 0.0, 11.9)
    assert not is_late(1e9, 1000, 500.0, math.inf)


def test_a_request_that_would_be_late_is_told_when_to_come_back():
    assert expected_ttft(3000, 1000, 2000.0) == 2.0
    assert expected_ttft(3000, 1000, 0.0) == 0.0
    assert expected_ttft(3000, 1000, 2000.0, 1.0) == 2.0
    assert expected_ttft(3000, 1000, 2000.0, 2.0) == 2.5
    assert expected_ttft(0, 1000, 2000.0, 2.0) == 2.5
    assert expected_ttft(0, 1000, 0.0, 2.0) == 2.0
    assert retry_after(2.0, None) is None
    assert retry_after(2.4, 3.0) is None
    assert retry_after(5.0, 2.5) == 3.0
    assert retry_after(2.5, 3.0) == 1.0
    assert smooth_rate(0.0, 100, 0.1) == 1000.0
    assert 1000 < smooth_rate(1000.0, 200, 0.1) < 2000
    assert smooth_rate(1000.0, 0, 0.1) == 1000.0


def test_who_finds_no_slot_waits_for_answers_to_end():
    assert slot_wait(3, 4, 0.5) == 0.0
    assert slot_wait(3, 3, 0.5) == 2.0
    assert slot_wait(3, 0, 2.0) == 2.0
    assert slot_wait(3, -2, 2.0) == 3.0
    assert slot_wait(3, 0, 0.0) == 0.0


@given(st.integers(1, 8000), st.floats(1e-4, 1e6))
def test_an_idle_server_takes_what_its_rate_would_refuse(own, rate):
    """Nothing else could tell it that the rate has become better."""
    assert retry_after(expected_ttft(0, own, rate), 0.001) is None
    assert expected_ttft(1, own, rate) == pytest.approx((1 + own) / rate)


def test_short_steps_do_not_hide_the_rate_of_long_ones():
    """Ten rests of prompts, 4 tokens in 5 ms each, after a whole prompt of 512 in 170 ms."""
    rate = smooth_rate(0.0, 512, 0.17)
    for _ in range(10):
        rate = smooth_rate(rate, 4, 0.005)
    assert rate > 0.9 * 512 / 0.17
    for _ in range(20):
        rate = smooth_rate(rate, 512, 0.34)
    assert abs(rate - 512 / 0.34) < 10


@given(st.floats(0, 1e6), st.floats(0, 1e6))
def test_silence_is_a_hang_unless_we_have_slept_ourselves(silence, pause):
    assert hung(silence, pause, 0.25) == (silence > SILENCE and pause < 0.25 + OWN_PAUSE)
    assert not hung(silence, since_last_look=600.0, look_interval=0.25)


def test_a_crash_is_told_from_a_kill():
    ended = {code: suspicion(code, trusted=True) for code in (1, 3, -signal.SIGSEGV, -signal.SIGABRT)}
    assert set(ended.values()) == {CRASH}
    assert suspicion(-signal.SIGKILL, trusted=False) == CRASH
    assert suspicion(-signal.SIGKILL, trusted=True) == KILLED
    assert suspicion(-signal.SIGTERM, trusted=True) == KILLED
    assert 2 * KILLED <= CRASH


def test_admission_keeps_a_page_for_every_running_request():
    assert admits(5, Room(free_pages=5, running=0, slots=4))
    assert not admits(5, Room(free_pages=6, running=2, slots=4))
    assert admits(5, Room(free_pages=7, running=2, slots=4))
    assert not admits(1, Room(free_pages=99, running=4, slots=4))


def test_routing_takes_the_least_loaded():
    loads = [Load("a", 600, 3), Load("b", 100, 9), Load("c", 100, 2)]
    assert route_prefill(loads, 1024) == "b"
    assert route_prefill(loads, 100) is None
    assert route_decode(loads) == "c"
    assert route_prefill([], 1024) is None
    assert route_decode([]) is None


def test_the_newest_and_least_important_gives_way():
    assert choose_victim([(1.0, 7), (3.0, 2), (2.0, 9)]) == 2
    assert rank(5.0, 0) < rank(6.0, 0) < rank(5.0, 1) < rank(6.0, 1)
    assert rank(100.0, 0) > rank(5.0, 1)
    assert choose_victim([]) is None


def test_restarts_are_spaced_out_and_end():
    assert [restart_delay(deaths) for deaths in range(1, len(DELAYS) + 2)] == [*DELAYS, None]
    assert count_death(2, REDEEMED_BY) == 2
    assert count_death(2, REDEEMED_BY / 2) == 3
    assert count_death(2, 100.0) == 1


def test_decode_paces_itself_only_where_there_is_a_target_and_somebody_waits():
    paces = [Pace(9.0, 30)]
    assert next_step(paces, 10.0, 0.01, None, True) == 0.0
    assert next_step(paces, 10.0, 0.01, 0.04, False) == 0.0
    due = next_step(paces, 10.0, 0.01, 0.04, True)
    assert 10.0 < due <= 10.0 + MOST * 0.04
    assert lend_until(due) < due


def test_what_is_ahead_of_its_pace_may_wait_and_what_is_behind_is_hurried_both_within_bounds():
    even, ahead, behind = Pace(9.59, 11), Pace(9.59, 15), Pace(9.59, 5)

    def gap(*paces: Pace) -> float:
        return next_step(paces, 10.0, 0.01, 0.04, True) - 10.0

    assert gap(behind) == pytest.approx(LEAST * 0.04)
    assert gap(ahead) == pytest.approx(MOST * 0.04)
    assert gap(behind) < gap(even) < gap(ahead)
    assert gap(ahead, even) == gap(even)


@given(st.floats(0.001, 0.01), st.lists(st.sampled_from([0.0, 0.001, 0.004]), min_size=50, max_size=50))
def test_a_paced_answer_keeps_its_target_on_average_whatever_delays_its_steps(step, delays):
    now, began, target = 100.0, 100.0, 0.02
    for tokens, delay in enumerate(delays):
        began = max(now, next_step([Pace(100.0, tokens)], began, step, target, True)) + delay
        now = began + step
    assert now - 100.0 <= len(delays) * target + 0.004
