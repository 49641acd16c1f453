"""Hugging Face folders: the same model as the GGUF file of the same weights, or one clear line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import tiny
from twinfer.errors import ModelError
from twinfer.model.checkpoint import Checkpoint, FolderTokenizer
from twinfer.model.load import load
from twinfer.model.template import load_template
from twinfer.model.tokenizer import Tokenizer, load_tokenizer
from twinfer.model.tokenizer_folder import folder_parts

TEXTS = ("hello the man in 1234", "안녕 🤖 <|im_start|>user\nhi<|im_end|>\n", "  a\tb\r\n", "")


def refusal(path: Path) -> str:
    with pytest.raises(ModelError) as caught:
        load_tokenizer(load(path))
    message = str(caught.value)
    assert "\n" not in message
    assert str(path) in message
    return message


def attempt(path: Path) -> Checkpoint | str:
    """The checkpoint or the refusal."""
    try:
        return load(path)
    except ModelError as error:
        return str(error)


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("shards", [1, 3])
def test_same_model_as_the_gguf_file(tied: bool, shards: int, tmp_path: Path) -> None:
    folder = load(tiny.write_folder(tmp_path / "f", shards=shards, tied=tied, head_dim=24))
    file = load(tiny.write_gguf(tmp_path / "f.gguf", tied=tied, head_dim=24))
    assert folder.tensors.keys() == file.tensors.keys()
    for name, tensor in file.tensors.items():
        np.testing.assert_array_equal(folder.tensors[name].floats(), tensor.floats(), name)
        assert folder.tensors[name].name == name
    assert folder.description.inv_freq == pytest.approx(file.description.inv_freq)
    for field in ("layers", "hidden", "heads", "kv_heads", "head_dim", "ffn", "vocab", "tied"):
        assert getattr(folder.description, field) == getattr(file.description, field)


def test_same_text_as_the_gguf_file(tmp_path: Path) -> None:
    folder = load(tiny.write_folder(tmp_path / "f"))
    file = load(tiny.write_gguf(tmp_path / "f.gguf"))
    ours, theirs = load_tokenizer(folder), load_tokenizer(file)
    for text in TEXTS:
        for special in (True, False):
            assert ours.encode(text, special) == theirs.encode(text, special)
    ids = range(ours.vocab_size)
    assert [ours.token_bytes(i) for i in ids] == [theirs.token_bytes(i) for i in ids]
    assert (ours.eos, ours.bos) == (theirs.eos, theirs.bos) == (frozenset({0, 2}), 1)
    messages = [{"role": "user", "content": "hi"}]
    template, same = load_template(folder), load_template(file)
    assert template is not None
    assert same is not None
    assert template.render(messages) == same.render(messages)


@pytest.mark.parametrize(("dtype", "tolerance"), [("F16", 1e-3), ("BF16", 1e-2)])
def test_half_precisions(dtype: str, tolerance: float, tmp_path: Path) -> None:
    loaded = load(tiny.write_folder(tmp_path / "f", dtype=dtype))
    assert {tensor.kind for tensor in loaded.tensors.values()} == {dtype}
    for name, values in tiny.weights(tiny.Sizes()).items():
        expected = values.reshape(loaded.tensors[name].shape)
        np.testing.assert_allclose(loaded.tensors[name].floats(), expected, rtol=tolerance, atol=1e-4)


def test_mistral_without_a_window_is_a_llama(tmp_path: Path) -> None:
    config = {"architectures": ["MistralForCausalLM"], "sliding_window": None}
    assert load(tiny.write_folder(tmp_path / "f", config=config)).description.layers == 2


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"architectures": ["GemmaForCausalLM"]}, "'GemmaForCausalLM' is not supported; supported: LlamaFor"),
        ({"architectures": None}, "architecture 'None' is not supported"),
        ({"architectures": ["MistralForCausalLM"]}, "a sliding window is not supported"),
        ({"quantization_config": {"quant_method": "gptq"}}, "quantization_config = {'quant_method': 'gptq'}"),
        ({"attention_bias": True}, "attention_bias = True is not supported"),
        ({"mlp_bias": True}, "mlp_bias = True is not supported"),
        ({"hidden_act": "gelu"}, "hidden_act = gelu is not supported"),
        ({"hidden_size": "big"}, "config.json is damaged"),
        ({"hidden_size": 10**30}, "expected (271, 1000000000000000000000000000000)"),
        ({"num_attention_heads": 0}, "num_attention_heads must be at least 1"),
        ({"vocab_size": 300}, "expected (300, 64)"),
        ({"rope_scaling": {"rope_type": "yarn", "factor": 4.0}}, "rope scaling 'yarn' is not supported"),
        ({"rope_scaling": {"rope_type": "linear"}}, "needs a number 'factor'"),
        ({"tie_word_embeddings": False}, "tensor 'output.weight' is missing"),
    ],
)
def test_unsupported_configs(config: dict[str, Any], said: str, tmp_path: Path) -> None:
    assert said in refusal(tiny.write_folder(tmp_path / "f", config=config))


def test_linear_rope_scaling(tmp_path: Path) -> None:
    config = {"rope_scaling": {"type": "linear", "factor": 2.0}}
    scaled = load(tiny.write_folder(tmp_path / "f", config=config)).description.inv_freq
    assert scaled == pytest.approx([10000 ** (-i / 8) / 2 for i in range(8)])


@pytest.mark.parametrize("key", ["rope_scaling", "rope_parameters"])
def test_llama3_rope_scaling(key: str, tmp_path: Path) -> None:
    scaling = {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64,
        "rope_theta": 10000.0,
    }
    scaled = load(tiny.write_folder(tmp_path / "f", config={key: scaling})).description.inv_freq
    plain = [10000 ** (-i / 8) for i in range(8)]
    # 64 positions turn the first pair 10 times (kept), the second 3.2 times (blended), the third once.
    assert scaled[0] == plain[0]
    keep = (64 * plain[1] / (2 * np.pi) - 1) / 3
    assert scaled[1] == pytest.approx((1 - keep) * plain[1] / 8 + keep * plain[1])
    assert scaled[3:] == pytest.approx([frequency / 8 for frequency in plain[3:]])


@pytest.mark.parametrize(
    "name",
    ["config.json", "tokenizer.json", "model-00002-of-00002.safetensors", "model.safetensors.index.json"],
)
def test_missing_and_damaged_files_are_named(name: str, tmp_path: Path) -> None:
    folder = tiny.write_folder(tmp_path / "f", shards=2)
    content = (folder / name).read_bytes()
    (folder / name).write_bytes(content[: len(content) // 2])
    assert name in refusal(folder)
    (folder / name).unlink()
    assert name in refusal(folder)


def test_unsupported_types_are_named(tmp_path: Path) -> None:
    folder = tiny.write_folder(tmp_path / "f")
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes().replace(b'"dtype":"F32"', b'"dtype":"I32"', 1))
    assert "is of type I32; supported: F32, F16, BF16" in refusal(folder)


def test_unsupported_tokenisers_are_named(tmp_path: Path) -> None:
    folder = tiny.write_folder(tmp_path / "f")
    described = json.loads((folder / "tokenizer.json").read_text())
    described["model"]["type"] = "WordPiece"
    (folder / "tokenizer.json").write_text(json.dumps(described))
    assert "holds a 'WordPiece' tokeniser; supported: BPE" in refusal(folder)


def test_tokeniser_larger_than_the_model_is_refused(tmp_path: Path) -> None:
    folder = tiny.write_folder(tmp_path / "f")
    described = json.loads((folder / "tokenizer.json").read_text())
    described["added_tokens"].append(described["added_tokens"][0] | {"id": 271, "content": "<more>"})
    (folder / "tokenizer.json").write_text(json.dumps(described))
    assert "the tokeniser has 272 tokens, the model only 271" in refusal(folder)


def test_added_tokens_outside_the_vocabulary_keep_their_ids(tmp_path: Path) -> None:
    source = load(tiny.write_folder(tmp_path / "f")).tokenizer_source
    assert isinstance(source, FolderTokenizer)
    described = json.loads(source.tokenizer)
    like = described["added_tokens"][0]
    described["added_tokens"] += [
        like | {"id": 271, "content": "<more>"},
        like | {"id": 272, "content": "<think>", "special": False},
    ]
    tokenizer = Tokenizer(
        folder_parts(msgspec.structs.replace(source, tokenizer=json.dumps(described))), vocab_size=280
    )
    assert tokenizer.encode("<more><think>") == [271, 272]
    assert tokenizer.encode("<think>", special=False) == [272]
    assert tokenizer.decode([271, 272, 279]) == "<think>"
    assert tokenizer.decode(tokenizer.encode("<more>", special=False)) == "<more>"


@given(flips=st.lists(st.tuples(st.integers(0, 4000), st.integers(1, 255)), min_size=1, max_size=3))
def test_flipped_bytes_give_a_model_or_a_clear_refusal(
    tmp_path_factory: pytest.TempPathFactory, flips: list[tuple[int, int]]
) -> None:
    folder = tiny.write_folder(tmp_path_factory.mktemp("flip"), layers=1, hidden=32, ffn=32)
    file = folder / "model.safetensors"
    damaged = bytearray(file.read_bytes())
    for at, mask in flips:
        damaged[at % 1200] ^= mask
    file.write_bytes(damaged)
    outcome = attempt(folder)
    if isinstance(outcome, Checkpoint):
        assert all(tensor.floats().shape == tensor.shape for tensor in outcome.tensors.values())
    else:
        assert "\n" not in outcome
