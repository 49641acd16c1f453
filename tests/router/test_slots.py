"""How many requests decode at a time, and what follows for those that wait."""

import math

from hypothesis import given
from hypothesis import strategies as st

from twinfer.messages import Sampling, Step
from twinfer.policy.costs import Answers, Costs, learn
from twinfer.policy.pacing import MARGIN
from twinfer.policy.pages import PageLedger
from twinfer.policy.slots import Slots
from twinfer.router.core import Core
from twinfer.router.generation import Generation
from twinfer.router.memory import Cache, Memory
from twinfer.router.request import Request
from twinfer.timeline import Timeline

SPLIT = {"prefill-0": "prefill", "decode-0": "decode"}


def request(number, length):
    return Request(
        id=number,
        generation=Generation([5] * length, Sampling(), 9),
        max_length=length + 9,
        timeline=Timeline(),
        on_tokens=lambda token: None,
        on_end=lambda: None,
        tokens=[5] * length,
    )


def deployment(roles, *, slots=64, slo_tpot=None):
    core = Core(Memory(PageLedger(1000), 16, Cache()), slots=slots, backlog=1024, slo_tpot=slo_tpot)
    for name, role in roles.items():
        core.add_engine(name, role, (), 0.0)
    return core


def running(core):
    return len(core.requests) - len(core.queue)


def decode_step(seconds, batch, prompt_tokens=0):
    return Step([], [], [], [], 10.0, 10.0 + seconds, prompt_tokens, batch, 0)


def test_no_more_start_than_decode_steps_in_time():
    def started(slo_tpot):
        core = deployment(SPLIT, slo_tpot=slo_tpot)
        core.engines["decode-0"].between = costs
        for number in range(1, 20):
            core.submit(request(number, 30), 1.0)
        return running(core)

    costs = Costs()
    for batch in (5, 6, 7, 8) * 5:
        learn(costs, 0, Answers(batch, 0), 0.003 + 0.001 * batch)
    assert started(0.015) == int((MARGIN * 0.015 - 0.003) / 0.001) == 11
    assert started(0.01) == 6
    assert started(0.1) == started(None) == 19


def test_who_must_wait_for_an_answer_to_end_is_told_so():
    core = deployment(SPLIT, slots=4)
    view = core.engines["decode-0"]
    for _ in range(30):
        view.count(decode_step(0.02, 4), helped=False)
    for _ in range(3):
        core.slots.count(50)
    for number in range(1, 8):
        core.submit(request(number, 30), 1.0)
    assert running(core) == 4
    assert len(core.queue) == 3
    late = request(8, 30)
    late.timeline.arrived = 1.0
    # An answer of 50 tokens takes 1 s, and four are written at a time.
    assert math.isclose(core.expected_ttft(late), 4 * 50 * 0.02 / 4)


@given(st.integers(1, 64), st.floats(0.001, 0.1), st.integers(1, 20), st.floats(0.001, 0.2))
def test_one_batch_counts_the_prompts_between_the_tokens(batch, seconds, prompts, each):
    """So the traditional server, too, takes no more answers than keep the target."""
    view = deployment({"mixed-0": "mixed"}).engines["mixed-0"]
    view.decoding[1] = request(1, 3)
    for _ in range(30):
        for _ in range(prompts):
            view.count(decode_step(each, 0, 64), helped=False)
        view.count(decode_step(seconds, batch), helped=False)
    whole = seconds + prompts * each
    slots = Slots(1000, 0.5 * whole)
    assert slots.of(view.between, 0) in (
        max(1, math.floor(MARGIN * 0.5 * batch - 1e-6)),
        int(MARGIN * 0.5 * batch + 1e-6),
    )


def test_a_bad_time_is_not_believed_for_ever():
    """With few requests at a time no engine works beside another, and steps have all the cores."""
    view = deployment(SPLIT).engines["decode-0"]
    slots = Slots(64, 0.02)
    for batch in (3, 4, 5) * 10:
        view.count(decode_step(0.1, batch), helped=False)
    assert slots.of(view.between, 0) == 1
    for _ in range(200):
        view.count(decode_step(0.004, 1), helped=True)
    assert slots.of(view.between, 0) > 1


def test_the_mean_answer_is_known_from_the_first_and_follows_slowly():
    slots = Slots(1)
    for tokens in (10, 20, 30):
        slots.count(tokens)
    assert math.isclose(slots.answer, 20)
    for _ in range(200):
        slots.count(100)
    assert 99 < slots.answer <= 100
