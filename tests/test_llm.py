"""The offline API on the real model."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from twinfer import LLM, SamplingParams
from twinfer.errors import ConfigError, ModelError, RequestError, TwinferError

from .conftest import GOLDEN
from .processes import PATIENCE, alive, children, has_large_pages, on_large_pages, wait_until

FRANCE = [{"role": "user", "content": "What is the capital of France?"}]
GREEDY = SamplingParams(temperature=0, max_tokens=32)


@pytest.fixture(scope="module")
def llm(model_path):
    with LLM(kv_pool_size="128MiB") as llm:
        yield llm


def test_it_knows_the_capital_of_france(llm):
    [output] = llm.chat(FRANCE, GREEDY, use_tqdm=False)
    assert output.outputs[0].text == "The capital of France is Paris."
    assert output.outputs[0].finish_reason == "stop"
    case = json.loads((GOLDEN / "greedy.json").read_text())["cases"][0]
    assert output.prompt_token_ids == case["prompt_ids"]
    assert output.usage.prompt_tokens == len(case["prompt_ids"])
    assert output.usage.completion_tokens == len(output.outputs[0].token_ids)


def test_an_idle_server_puts_its_pool_on_large_pages_and_answers_the_same(llm):
    if not has_large_pages():
        pytest.skip("this system has no large pages to give")
    before = llm.chat(FRANCE, GREEDY, use_tqdm=False)[0].outputs[0].token_ids
    wait_until(lambda: on_large_pages("twinfer-kv") > 0)
    assert llm.chat(FRANCE, GREEDY, use_tqdm=False)[0].outputs[0].token_ids == before


def test_texts_and_token_ids_mix_and_come_back_in_order(llm):
    prompts = ["Once upon a time", [504, 3575], "The sky is", [1]]
    outputs = llm.generate(prompts, SamplingParams(max_tokens=5, temperature=0, ignore_eos=True))
    assert [output.prompt for output in outputs] == ["Once upon a time", None, "The sky is", None]
    assert outputs[1].prompt_token_ids == [504, 3575]
    assert all(len(output.outputs[0].token_ids) == 5 for output in outputs)
    assert all(output.outputs[0].finish_reason == "length" for output in outputs)


def test_metrics_follow_the_timeline(llm):
    [output] = llm.generate("A long story:", SamplingParams(max_tokens=8, ignore_eos=True), use_tqdm=False)
    metrics = output.metrics
    assert 0 < metrics.queueing < metrics.ttft < metrics.total
    assert metrics.handover > 0
    assert 0 < metrics.tpot < metrics.total


def test_one_prompt_may_be_given_bare_and_answered_several_times(llm):
    [output] = llm.generate("Colours:", SamplingParams(n=3, max_tokens=6, seed=5), use_tqdm=False)
    assert [answer.index for answer in output.outputs] == [0, 1, 2]
    again = llm.generate("Colours:", [SamplingParams(max_tokens=6, seed=6)], use_tqdm=False)
    assert again[0].outputs[0].token_ids == output.outputs[1].token_ids
    [ids] = llm.generate([504, 3575, 282], SamplingParams(max_tokens=2), use_tqdm=False)
    assert ids.prompt_token_ids == [504, 3575, 282]


def test_stop_strings_end_the_answer_and_are_not_part_of_it(llm):
    params = SamplingParams(temperature=0, max_tokens=32, stop=[" of Fr", "zzz"])
    [output] = llm.chat(FRANCE, params, use_tqdm=False)
    assert output.outputs[0].text == "The capital"
    assert output.outputs[0].finish_reason == "stop"


def test_the_progress_bar_can_be_switched_off(llm, capsys):
    llm.generate("a", SamplingParams(max_tokens=1), use_tqdm=False)
    assert capsys.readouterr().err == ""
    llm.generate("a", SamplingParams(max_tokens=1))
    assert "Requests" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("prompts", "message"),
    [
        ([[]], "the prompt is empty"),
        ([""], "the prompt is empty"),
        ([[49152]], "outside 0 to 49151"),
        ([[-1]], "outside 0 to 49151"),
        ([["a"]], "must be a text or a list of token ids"),
        ([[1] * 9000], "the prompt has 9000 tokens"),
    ],
)
def test_a_bad_prompt_is_refused_and_costs_nothing(llm, prompts, message):
    with pytest.raises(RequestError, match=message):
        llm.generate(["fine", *prompts], GREEDY, use_tqdm=False)
    assert llm.chat(FRANCE, GREEDY, use_tqdm=False)[0].outputs[0].text.endswith("Paris.")


def test_one_set_of_parameters_for_all_or_one_for_each(llm):
    with pytest.raises(RequestError, match="1 sampling_params for 2 prompts"):
        llm.generate(["a", "b"], [GREEDY], use_tqdm=False)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"tensor_parallel_size": 2}, ConfigError, "tensor_parallel_size=2 is not supported"),
        ({"gpu_memory_utilisation": 0.5}, ConfigError, "did you mean 'gpu_memory_utilization'"),
        ({"disaggregate_prefill": True, "colocate": True}, ConfigError, "contradict each other"),
        ({"disaggregate_prefill": True, "placement": "colocate"}, ConfigError, "contradict each other"),
        ({"kv_pool_size": "900TiB"}, ConfigError, "does not fit into the"),
        ({"max_model_len": 100000}, ConfigError, "over the model's context of 8192 tokens"),
        ({"model": "/nowhere/at-all.gguf"}, ModelError, "nowhere"),
    ],
)
def test_what_cannot_be_honoured_is_a_clear_error(model_path, options, error, message):
    with pytest.raises(error, match=message) as caught:
        LLM(**options)
    assert "\n" not in str(caught.value)


def test_a_closed_llm_says_so_and_has_let_its_memory_go(model_path):
    def pools():
        return Path("/proc/self/maps").read_text().count("memfd:twinfer-kv")

    before = pools()
    llm = LLM(kv_pool_size="32MiB", disaggregate_prefill=False)
    assert pools() > before
    llm.close()
    llm.close()
    wait_until(lambda: pools() == before)
    with pytest.raises(TwinferError, match="closed"):
        llm.generate("a", use_tqdm=False)


def test_closing_ends_what_renders_chats(model_path):
    before = set(children(os.getpid()))
    llm = LLM(kv_pool_size="32MiB", disaggregate_prefill=False)
    assert llm.chat(FRANCE, GREEDY, use_tqdm=False)[0].outputs[0].text.endswith("Paris.")
    assert len(set(children(os.getpid())) - before) == 2
    llm.close()
    assert set(children(os.getpid())) <= before
    with pytest.raises(TwinferError, match="closed"):
        llm.chat(FRANCE, GREEDY, use_tqdm=False)
    assert set(children(os.getpid())) <= before


@pytest.mark.parametrize("end", ["close", "exception", "interrupt", "nothing", "kill"])
def test_no_process_stays_behind(model_path, end):
    script = """
        import signal, sys
        from twinfer import LLM, SamplingParams
        signal.signal(signal.SIGINT, signal.default_int_handler)  # What runs in the background ignores it.
        llm = LLM(kv_pool_size="32MiB")
        print("ready", flush=True)
        end = sys.argv[1]
        if end == "close":
            llm.close()
        if end == "exception":
            raise RuntimeError("on purpose")
        if end in ("interrupt", "kill"):
            llm.generate("x", SamplingParams(max_tokens=8000, ignore_eos=True), use_tqdm=False)
    """
    command = [sys.executable, "-c", textwrap.dedent(script), end]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    engines = children(process.pid)
    if end in ("interrupt", "kill"):
        assert len(engines) == 2
        time.sleep(0.3)
        process.send_signal(signal.SIGINT if end == "interrupt" else signal.SIGKILL)
    _, errors = process.communicate(timeout=PATIENCE)
    if end == "exception":
        assert "on purpose" in errors
    if end == "interrupt":
        assert "KeyboardInterrupt" in errors, f"ended with {process.returncode}: {errors}"
    wait_until(lambda: not any(alive(pid) for pid in engines))
