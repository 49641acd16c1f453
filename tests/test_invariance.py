"""The same requests give the same tokens, bit for bit, whatever happens to them."""

import random

import pytest

from twinfer import LLM, SamplingParams
from twinfer.router.core import Core

LENGTHS = (1, 2, 15, 16, 17, 31, 40, 64, 100, 129, 200, 333)


def requests():
    """Prompts of awkward lengths, every other one sampled."""
    source = random.Random(7)
    prompts = [[source.randrange(300, 40000) for _ in range(length)] for length in LENGTHS]
    params = [
        SamplingParams(
            max_tokens=12 + 3 * number,
            ignore_eos=True,
            temperature=(0.0, 0.9)[number % 2],
            top_p=(1.0, 0.95)[number % 4 // 2],
            top_k=(0, 40)[number % 3 // 2],
            seed=number,
        )
        for number in range(len(prompts))
    ]
    return prompts, params


def tokens(outputs):
    return [output.outputs[0].token_ids for output in outputs]


@pytest.fixture(scope="module")
def alone(model_path):
    """Every request by itself, on two engines."""
    prompts, params = requests()
    with LLM(kv_pool_size="128MiB") as llm:
        pairs = zip(prompts, params, strict=True)
        return [tokens(llm.generate([prompt], own, use_tqdm=False))[0] for prompt, own in pairs]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"disaggregate_prefill": False},
        {"disaggregate_prefill": False, "prefill_chunk": 0},
        {"prefill_chunk": 7},
        {"prefill_chunk": 0},
        {"prefill_engines": 2, "decode_engines": 2, "prefill_chunk": 50},
        {"kv_pool_size": "14MiB", "max_model_len": 420},
        {"max_batch_size": 3},
        {"prefix_cache": False},
    ],
    ids=lambda options: ",".join(f"{name}={value}" for name, value in options.items()) or "together",
)
def test_tokens_do_not_depend_on(alone, options):
    prompts, params = requests()
    order = list(range(len(prompts)))
    random.Random(str(options)).shuffle(order)
    with LLM(**{"kv_pool_size": "128MiB", **options}) as llm:
        own = [prompts[i] for i in order], [params[i] for i in order]
        outputs = llm.generate(*own, use_tqdm=False)
        again = llm.generate(*own, use_tqdm=False)
    assert tokens(outputs) == [alone[i] for i in order]
    assert tokens(again) == tokens(outputs)


def test_nor_on_where_the_prefix_came_from(alone):
    """A prompt, an answer, and half of each, found in the cache and computed anew."""
    prompts, params = requests()
    greedy = SamplingParams(max_tokens=10, temperature=0, ignore_eos=True)
    with LLM(kv_pool_size="128MiB") as cached, LLM(kv_pool_size="128MiB", prefix_cache=False) as fresh:
        cached.generate(prompts, params, use_tqdm=False)
        turns = [prompt + answer[:-3] + [7] for prompt, answer in zip(prompts, alone, strict=True)]
        hits = cached.generate(turns, greedy, use_tqdm=False)
        assert sum(output.usage.cached_tokens for output in hits) > 0.7 * sum(map(len, turns))
        assert tokens(hits) == tokens(fresh.generate(turns, greedy, use_tqdm=False))


@pytest.mark.parametrize(
    "options",
    [{}, {"prefix_cache": False}, {"disaggregate_prefill": False}, {"prefill_engines": 2}],
    ids=lambda options: ",".join(f"{name}={value}" for name, value in options.items()) or "two engines",
)
def test_nor_on_whether_several_answers_share_their_prompt(model_path, options):
    """All prompts three times in one call; what is shared is computed once, and the usage says so."""
    prompts, _ = requests()
    how = SamplingParams(n=3, max_tokens=8, ignore_eos=True, temperature=0.8, seed=5)
    with LLM(kv_pool_size="128MiB", prefill_chunk=64, check=True, **options) as llm:
        together = llm.generate(prompts, how, use_tqdm=False)
    with LLM(kv_pool_size="128MiB", prefix_cache=False) as llm:
        for seed, answer in ((5, 0), (7, 2)):
            own = SamplingParams(max_tokens=8, ignore_eos=True, temperature=0.8, seed=seed)
            one_by_one = [llm.generate(prompt, own, use_tqdm=False)[0] for prompt in prompts]
            assert [output.outputs[answer].token_ids for output in together] == tokens(one_by_one)
    for prompt, output in zip(prompts, together, strict=True):
        shared = (len(prompt) - 1) // 16 * 16
        assert [answer.usage.cached_tokens for answer in output.outputs] == [0, shared, shared]


def test_nor_on_who_computes_a_prompt(alone, monkeypatch):
    """Every prompt that may is computed by the decode engine, between its answers, in awkward chunks."""
    placed, find_engine = [], Core._find_engine

    def on_decode(core, request, phase, now):
        if phase == "prefill" and not request.begun:
            placed.append(request.id)
            return "decode-0", 3 + 10 * (request.id % 5)
        return find_engine(core, request, phase, now)

    monkeypatch.setattr(Core, "_find_engine", on_decode)
    prompts, params = requests()
    with LLM(kv_pool_size="128MiB", prefix_cache=False) as llm:
        outputs = llm.generate(prompts, params, use_tqdm=False)
    assert len(set(placed)) == len(prompts)
    assert tokens(outputs) == alone
