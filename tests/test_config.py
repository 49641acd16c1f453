import pytest

from twinfer.config import Config, parse_bytes
from twinfer.errors import ConfigError, RequestError
from twinfer.sampling import SamplingParams


def test_sizes_are_read_as_people_write_them():
    assert [parse_bytes(text) for text in ("7", "2K", "1.5 MiB", "2gb", "1GiB")] == [
        7,
        2048,
        3 << 19,
        2 << 30,
        1 << 30,
    ]
    assert Config.from_options(kv_pool_size="64MiB").kv_pool_size == 64 << 20


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"prefil_engines": 2}, "unknown option 'prefil_engines'; did you mean 'prefill_engines'?"),
        ({"xyz": 1}, "unknown option 'xyz'"),
        ({"tensor_parallel_size": 2}, "tensor_parallel_size=2 is not supported; only 1 is, for now"),
        ({"prefill_engines": 0}, "prefill_engines must be at least 1, not 0"),
        ({"prefill_chunk": -1}, "prefill_chunk must be at least 0, not -1"),
        ({"gpu_memory_utilization": 1.5}, "gpu_memory_utilization must be over 0 and at most 1, not 1.5"),
        (
            {"decode_precision": "fp8"},
            "decode_precision must be one of auto, f32, bf16, int8, int4, not 'fp8'",
        ),
        (
            {"placement": "anywhere"},
            "placement must be one of auto, always-disaggregate, colocate, not 'anywhere'",
        ),
        ({"colocate": "yes"}, "colocate must be True or False, not 'yes'"),
        (
            {"colocate": True, "placement": "always-disaggregate"},
            "colocate and placement=always-disaggregate contradict each other; set one of them",
        ),
        ({"kv_pool_size": "much"}, "'much' is not a size; write for example 512MiB or 2GiB"),
        ({"decode_engines": "two"}, "Expected `int`, got `str` for option `decode_engines`"),
    ],
)
def test_a_bad_option_is_one_clear_line(options, message):
    with pytest.raises(ConfigError) as caught:
        Config.from_options(**options)
    assert str(caught.value) == message


def test_colocate_is_a_placement():
    assert Config.from_options(colocate=True) == Config.from_options(placement="colocate")
    assert Config.from_options(colocate=False) == Config.from_options() == Config(placement="auto")
    assert Config(placement="colocate").colocate
    assert not Config(placement="always-disaggregate").colocate


@pytest.mark.parametrize(
    ("options", "param"),
    [
        ({"temperature": 2.5}, "temperature"),
        ({"temperature": float("nan")}, "temperature"),
        ({"top_p": 0}, "top_p"),
        ({"top_k": -2}, "top_k"),
        ({"min_p": 1.1}, "min_p"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": "five"}, "max_tokens"),
        ({"n": 0}, "n"),
        ({"seed": 1 << 64}, "seed"),
        ({"stop": [""]}, "stop"),
        ({"stop": 5}, "stop"),
        ({"stop_token_ids": ["a"]}, "stop_token_ids"),
    ],
)
def test_a_bad_sampling_parameter_names_its_field(options, param):
    with pytest.raises(RequestError) as caught:
        SamplingParams(**options)
    assert caught.value.param == param


def test_an_unknown_sampling_parameter_is_an_error():
    with pytest.raises(TypeError, match="temprature"):
        SamplingParams(temprature=1)


def test_answers_of_one_prompt_have_seeds_that_count_up():
    assert [s.seed for s in SamplingParams(n=3, seed=-1).samplings(None)] == [(1 << 64) - 1, 0, 1]
    assert [s.seed for s in SamplingParams().samplings(7)] == [7]
    assert SamplingParams().samplings(None) != SamplingParams().samplings(None)
