"""Where a prompt is computed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinfer.policy.pacing import MARGIN
from twinfer.policy.placement import CLEARLY, Decode, Prefill, place_on_decode, step_budget

SECONDS = st.floats(1e-5, 0.05)
PREFILLS = st.builds(Prefill, st.floats(0, 2), SECONDS, st.integers(0, 50))
DECODES = st.builds(Decode, SECONDS, st.integers(0, 64), SECONDS, st.none() | st.floats(0.005, 0.2))


@given(DECODES, st.integers(1, 512))
def test_prompt_tokens_in_a_step_keep_the_target(decode, most):
    budget = step_budget(decode, most)
    assert 0 <= budget <= most
    if decode.target is not None and budget:
        assert decode.step + budget * decode.token <= MARGIN * decode.target * 1.0001


@given(st.integers(1, 4096), PREFILLS, DECODES, st.integers(1, 512))
def test_a_decode_engine_takes_a_prompt_only_where_that_is_sooner_and_harms_no_target(
    tokens, prefill, decode, chunk
):
    most = place_on_decode(tokens, prefill, decode, chunk)
    assert 0 <= most <= chunk
    if most:
        there = prefill.wait + tokens * prefill.token
        assert tokens * decode.token + decode.step < CLEARLY * there
        assert most == step_budget(decode, chunk)
        if decode.target is None:
            assert decode.batch * tokens * decode.token < there


@pytest.mark.parametrize(
    ("tokens", "wait", "batch", "target", "placed"),
    [
        (30, 0.2, 0, None, True),  # behind a long chunk, and decode is idle
        (30, 0.0, 0, None, False),  # nothing to wait for
        (600, 0.2, 0, None, False),  # too long to be sooner on one core
        (30, 0.2, 4, None, True),
        (30, 0.2, 60, None, False),  # too many answers would wait
        (30, 0.2, 4, 0.02, True),
        (30, 0.2, 4, 0.011, False),  # the target leaves no room
    ],
)
def test_where_prompts_go(tokens, wait, batch, target, placed):
    prefill = Prefill(wait, 0.00025, 1)
    decode = Decode(0.01 if batch else 0.0, batch, 0.0005, target)
    assert bool(place_on_decode(tokens, prefill, decode, 512)) is placed


def test_nothing_is_placed_before_anything_is_known():
    assert place_on_decode(5, Prefill(0.0, 0.0, 1), Decode(0.0, 0, 0.0, None), 512) == 0
