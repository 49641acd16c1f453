"""How many requests decode at a time, and what follows for those that wait."""

import math

from hypothesis import given
from hypothesis import strategies as st

from twinfer.messages import Sampling, Step
from twinfer.policy.costs import Answers, Costs, learn, most_answers
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
        core.engines["decode-0"].between.alone = costs
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


@given(st.floats(0, 0.01), st.floats(1e-4, 2e-3), st.floats(0.3, 1), st.floats(0, 1), st.integers(1, 300))
def test_more_decode_at_a_time_the_less_there_is_to_compute_for_prompts(base, slope, gain, prompt, answer):
    """An engine that is alone only while prompts are computed is helped in between."""
    core = deployment(SPLIT, slo_tpot=0.02)
    engine, slots = core.engines["decode-0"].between, core.slots
    for batch in (3, 4, 5, 6) * 10:
        learn(engine.alone, 0, Answers(batch, 0), base + slope * batch)
        learn(engine.helped, 0, Answers(batch, 0), gain * (base + slope * batch))
    target = MARGIN * 0.02
    least, most = (most_answers(costs, target, 0) for costs in (engine.alone, engine.helped))
    slots.count(answer)
    for _ in range(3):
        slots.note(2 * prompt, 2)
    found = slots.of(engine, 0)
    assert found >= (least or 64)
    if most is not None:
        assert found <= max(most, least or 64)
    # What a token of each takes then, some of the time alone, is just what keeps the target.
    if least is not None and most is not None and least < found < most:
        alone = min(1.0, found * prompt / answer / 0.02)
        whole = (gain + (1 - gain) * alone) * (base + slope * found)
        assert whole <= target * 1.001


def test_prompts_that_take_no_time_leave_all_the_help_and_long_ones_none():
    def slots(prompt):
        core = deployment(SPLIT, slo_tpot=0.02)
        engine = core.engines["decode-0"].between
        for batch in (6, 7, 8, 9) * 10:
            learn(engine.alone, 0, Answers(batch, 0), 0.002 * batch)
            learn(engine.helped, 0, Answers(batch, 0), 0.0015 * batch)
        core.slots.count(100)
        core.slots.note(prompt, 1)
        return core.slots.of(engine, 0)

    assert (slots(0.0), slots(10.0)) == (12, 9)
    assert 9 < slots(0.08) < 12
