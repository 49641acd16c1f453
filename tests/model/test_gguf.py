"""The GGUF reader: right on whole files, and one clear line on every damaged or unsupported one."""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import tiny
from twinfer.errors import ModelError
from twinfer.model.checkpoint import KINDS, Checkpoint, check_tensors
from twinfer.model.gguf import read
from twinfer.model.load import load
from twinfer.model.tokenizer import load_tokenizer

SMALL: dict[str, Any] = {"layers": 1, "hidden": 32, "heads": 2, "kv_heads": 1, "ffn": 32}


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return tiny.write_gguf(tmp_path_factory.mktemp("gguf") / "small.gguf", **SMALL).read_bytes()


def refusal(path: Path) -> str:
    """The one line that loading this file fails with."""
    with pytest.raises(ModelError) as caught:
        load_tokenizer(load(path))
    message = str(caught.value)
    assert "\n" not in message
    assert str(path) in message
    return message


def attempt(path: Path) -> Checkpoint | str:
    """The checkpoint, whose tokeniser works, or the refusal."""
    try:
        checkpoint = load(path)
        load_tokenizer(checkpoint).encode("the man in 12 <|im_start|>")
    except ModelError as error:
        return str(error)
    return checkpoint


def test_describes_the_model(tmp_path: Path) -> None:
    path = tiny.write_gguf(tmp_path / "m.gguf", layers=3, hidden=64, heads=4, kv_heads=2, tied=False)
    d = load(path).description
    assert (d.name, d.layers, d.hidden, d.heads, d.kv_heads, d.head_dim) == ("tiny", 3, 64, 4, 2, 16)
    assert (d.ffn, d.vocab, d.context_length, d.tied) == (96, len(tiny.vocabulary()), 256, False)
    assert d.rms_eps == pytest.approx(1e-5)
    assert d.inv_freq == pytest.approx([10000 ** (-i / 8) for i in range(8)])


@pytest.mark.parametrize("kind", KINDS)
def test_dequantises_as_the_gguf_package_does(kind: str, tmp_path: Path) -> None:
    path = tiny.write_gguf(tmp_path / "m.gguf", kind=kind, layers=1, hidden=256, ffn=256)
    tensors = load(path).tensors
    for theirs in gguf.GGUFReader(path).tensors:
        ours = tensors[theirs.name].floats()
        assert ours.dtype == np.float32
        expected = gguf.quants.dequantize(theirs.data, theirs.tensor_type)
        np.testing.assert_array_equal(ours, expected.reshape(ours.shape))


def test_vectors_are_one_row(tmp_path: Path) -> None:
    norm = load(tiny.write_gguf(tmp_path / "m.gguf")).tensors["output_norm.weight"]
    assert (norm.shape, norm.data.shape, norm.floats().shape) == ((1, 64), (1, 256), (1, 64))


def test_every_truncation_of_the_header_is_refused(small: bytes, tmp_path: Path) -> None:
    path = tmp_path / "cut.gguf"
    path.write_bytes(small)
    header = read(path).start
    for size in range(header - 1, -1, -1):
        os.truncate(path, size)
        with pytest.raises(ModelError, match=r"cut short|is empty|does not begin with"):
            load(path)


@given(share=st.floats(0, 1, exclude_max=True))
def test_truncated_weights_are_refused(
    small: bytes, tmp_path_factory: pytest.TempPathFactory, share: float
) -> None:
    path = tmp_path_factory.mktemp("cut") / "cut.gguf"
    path.write_bytes(small[: int(len(small) * share)])
    refusal(path)


@given(flips=st.lists(st.tuples(st.integers(0, 1 << 20), st.integers(1, 255)), min_size=1, max_size=4))
def test_flipped_bytes_give_a_model_or_a_clear_refusal(
    small: bytes, tmp_path_factory: pytest.TempPathFactory, flips: list[tuple[int, int]]
) -> None:
    path = tmp_path_factory.mktemp("flip") / "flip.gguf"
    path.write_bytes(small)
    header = read(path).start
    damaged = bytearray(small)
    for at, mask in flips:
        damaged[at % header] ^= mask
    path.write_bytes(damaged)
    outcome = attempt(path)
    if isinstance(outcome, Checkpoint):
        check_tensors(outcome.description, outcome.tensors)
        assert all(tensor.floats().shape == tensor.shape for tensor in outcome.tensors.values())
    else:
        assert "\n" not in outcome


@pytest.mark.parametrize(
    ("at", "value", "said"),
    [
        (0, b"GGML", "not a GGUF file"),
        (4, struct.pack("<I", 1), "GGUF version 1 is not supported; supported: versions 2 and 3"),
        (4, struct.pack(">I", 3), "big-endian GGUF is not supported"),
        (8, struct.pack("<Q", 1 << 60), "the file is damaged"),
        (16, struct.pack("<Q", 1 << 60), "cut short"),
    ],
)
def test_damaged_beginnings(small: bytes, tmp_path: Path, at: int, value: bytes, said: str) -> None:
    path = tmp_path / "bad.gguf"
    path.write_bytes(small[:at] + value + small[at + len(value) :])
    assert said in refusal(path)


def test_version_2_is_read(small: bytes, tmp_path: Path) -> None:
    path = tmp_path / "two.gguf"
    path.write_bytes(small[:4] + struct.pack("<I", 2) + small[8:])
    assert load(path).description.layers == 1


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (b"blk.0.attn_k.weight", b"blk.0.attn_v.weight", "names tensor 'blk.0.attn_v.weight' twice"),
        (b"blk.0.attn_k.weight", b"blk.0.attn_q.biases", "'blk.0.attn_k.weight' is missing"),
        (b"llama.block_count", b"llama.block_cound", "'llama.block_count' are missing"),
        (b"general.architecture", b"general.architectura", "'general.architecture' are missing"),
        (
            b"\x05\x00\x00\x00\x00\x00\x00\x00llama",
            b"\x05\x00\x00\x00\x00\x00\x00\x00llamb",
            "'llamb' is not",
        ),
        (b"tokenizer.ggml.merges", b"tokenizer.ggml.merged", "'tokenizer.ggml.merges' must be"),
        (b"\x04\x00\x00\x00\x00\x00\x00\x00gpt2", b"\x04\x00\x00\x00\x00\x00\x00\x00bert", "supported: gpt2"),
    ],
)
def test_names_that_are_not_there(small: bytes, tmp_path: Path, old: bytes, new: bytes, said: str) -> None:
    path = tmp_path / "bad.gguf"
    assert old in small
    path.write_bytes(small.replace(old, new, 1))
    assert said in refusal(path)


def test_unsupported_quantisation_is_named(tmp_path: Path) -> None:
    said = refusal(tiny.write_gguf(tmp_path / "m.gguf", kind="Q5_0"))
    assert "is quantised as Q5_0; supported: F32, F16, BF16, Q4_0, Q4_1, Q8_0, Q4_K, Q5_K, Q6_K" in said


@pytest.mark.parametrize(
    ("metadata", "said"),
    [
        ({"llama.expert_count": 8}, "llama.expert_count = 8 is not supported"),
        ({"llama.attention.sliding_window": 4096}, "sliding_window = 4096 is not supported"),
        (
            {"llama.rope.scaling.type": "yarn"},
            "rope scaling 'yarn' is not supported; supported: none, linear",
        ),
        ({"llama.rope.scaling.type": "llama3"}, "needs tensor 'rope_freqs.weight'"),
        ({"llama.rope.dimension_count": 8}, "rope.dimension_count = 8 is not supported"),
        ({"llama.attention.head_count": 3}, "3 query heads cannot share 2"),
        ({"llama.attention.head_count": 0}, "head_count must be at least 1"),
        ({"llama.feed_forward_length": 128}, "has shape (96, 64), expected (128, 64)"),
        ({"llama.block_count": 3}, "tensor 'blk.2.attn_norm.weight' is missing"),
        ({"llama.block_count": 1}, "is not part of a plain Llama model"),
        ({"llama.block_count": "two"}, "must be an integer, not 'two'"),
        ({"llama.rope.freq_base": 0.0}, "rope frequency base must be at least 1"),
        ({"llama.attention.layer_norm_rms_epsilon": float("nan")}, "RMSNorm epsilon"),
        ({"split.count": 2}, "split.count = 2 is not supported"),
        ({"tokenizer.ggml.eos_token_id": 99999}, "is 99999, which is no token"),
    ],
)
def test_unsupported_metadata(metadata: dict[str, Any], said: str, tmp_path: Path) -> None:
    assert said in refusal(tiny.write_gguf(tmp_path / "m.gguf", metadata=metadata))


@pytest.mark.parametrize("pre", ["tekken", "nonsense"])
def test_unsupported_pre_tokeniser_is_named(pre: str, tmp_path: Path) -> None:
    said = refusal(tiny.write_gguf(tmp_path / "m.gguf", pre=pre))
    assert f"pre-tokeniser '{pre}' is not supported; supported: default, gpt-2, smollm" in said


def test_linear_rope_scaling(tmp_path: Path) -> None:
    scaled = {"llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": 4.0}
    plain = load(tiny.write_gguf(tmp_path / "a.gguf")).description.inv_freq
    linear = load(tiny.write_gguf(tmp_path / "b.gguf", metadata=scaled)).description.inv_freq
    assert linear == pytest.approx([frequency / 4 for frequency in plain])


def test_missing_and_unreadable_files(tmp_path: Path) -> None:
    assert "no such file or folder" in refusal(tmp_path / "none.gguf")
    (tmp_path / "empty.gguf").touch()
    assert "is empty" in refusal(tmp_path / "empty.gguf")
