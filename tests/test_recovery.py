"""Engines that are killed or stopped for real: every answer is as if nothing had happened."""

import os
import random
import signal
import threading
import time

import pytest

from twinfer import LLM, SamplingParams
from twinfer.policy.restart import DELAYS

from .processes import alive, children, wait_until

GREEDY = SamplingParams(max_tokens=80, temperature=0, ignore_eos=True)
SAMPLED = SamplingParams(max_tokens=80, temperature=0.9, seed=4, ignore_eos=True)


def prompts():
    source = random.Random(11)
    return [[source.randrange(300, 40000) for _ in range(length)] for length in (5, 40, 90, 200, 350, 700)]


def tokens(outputs):
    return [output.outputs[0].token_ids for output in outputs]


@pytest.fixture(scope="module")
def undisturbed(model_path):
    with LLM(kv_pool_size="128MiB") as llm:
        return [tokens(llm.generate(prompts(), params, use_tqdm=False)) for params in (GREEDY, SAMPLED)]


def disturbed(llm, params, number, victim, delay):
    """The answers while `number` is sent to a process after `delay` seconds."""
    timer = threading.Timer(delay, os.kill, (victim, number))
    timer.start()
    try:
        return tokens(llm.generate(prompts(), params, use_tqdm=False))
    finally:
        timer.join()


@pytest.mark.parametrize("delay", [0.02, 0.2, 0.5])
@pytest.mark.parametrize("engine", ["prefill-0", "decode-0"])
def test_a_killed_engine_costs_no_token(undisturbed, engine, delay):
    with LLM(kv_pool_size="128MiB", prefill_chunk=100, check=True) as llm:
        victim = pid_of(llm, engine)
        assert disturbed(llm, GREEDY, signal.SIGKILL, victim, delay) == undisturbed[0]
        assert not alive(victim)
        wait_until(lambda: pid_of(llm, engine) != victim and state_of(llm, engine) == "ready")
        assert tokens(llm.generate(prompts(), SAMPLED, use_tqdm=False)) == undisturbed[1]


@pytest.mark.parametrize("engine", ["prefill-0", "decode-0"])
def test_a_stopped_engine_is_noticed_replaced_and_cannot_wake_up(undisturbed, engine):
    with LLM(kv_pool_size="128MiB", prefill_chunk=100, check=True) as llm:
        victim = pid_of(llm, engine)
        began = time.monotonic()
        assert disturbed(llm, SAMPLED, signal.SIGSTOP, victim, 0.1) == undisturbed[1]
        assert time.monotonic() - began < 30
        assert not alive(victim)


def test_one_mixed_engine_recovers_by_itself(undisturbed):
    with LLM(kv_pool_size="128MiB", colocate=True, check=True) as llm:
        victim = pid_of(llm, "mixed-0")
        assert disturbed(llm, GREEDY, signal.SIGKILL, victim, 0.3) == undisturbed[0]


def test_a_crash_loop_is_given_up_and_the_rest_goes_on(undisturbed):
    with LLM(kv_pool_size="128MiB") as llm:
        seen = set()
        while state_of(llm, "decode-0") != "dead":
            pid = pid_of(llm, "decode-0")
            if pid not in seen and state_of(llm, "decode-0") == "ready":
                seen.add(pid)
                os.kill(pid, signal.SIGKILL)
            time.sleep(0.02)
        assert len(seen) == len(DELAYS) + 1
        assert tokens(llm.generate(prompts(), GREEDY, use_tqdm=False)) == undisturbed[0]


def test_no_stray_engine_is_left(undisturbed):
    before = set(children(os.getpid()))
    with LLM(kv_pool_size="64MiB") as llm:
        for engine in ("prefill-0", "decode-0"):
            victim = pid_of(llm, engine)
            os.kill(victim, signal.SIGKILL)
            wait_until(lambda: pid_of(llm, engine) != victim and state_of(llm, engine) == "ready")  # noqa: B023
        assert len(set(children(os.getpid())) - before) == 2
    assert set(children(os.getpid())) <= before


def pid_of(llm, engine):
    return next(fact["pid"] for fact in llm.engines() if fact["id"] == engine)


def state_of(llm, engine):
    return next(fact["state"] for fact in llm.engines() if fact["id"] == engine)
