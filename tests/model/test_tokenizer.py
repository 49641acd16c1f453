"""Tokenisers: the golden ids of the default model, both GGUF kinds, and exact bytes per token."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import tiny
from twinfer.errors import ModelError, RequestError
from twinfer.model.checkpoint import GgufTokenizer
from twinfer.model.load import load
from twinfer.model.pieces import spell_sentencepiece
from twinfer.model.tokenizer import Tokenizer, load_tokenizer
from twinfer.model.tokenizer_gguf import gguf_parts

GOLDEN = Path(__file__).parent.parent / "golden"


@pytest.fixture(scope="session")
def tokenizer(model_path: Path) -> Tokenizer:
    return load_tokenizer(load(model_path))


@pytest.fixture(scope="session")
def golden() -> list[dict[str, Any]]:
    return json.loads((GOLDEN / "tokenize.json").read_text("utf-8"))


def test_golden_ids(tokenizer: Tokenizer, golden: list[dict[str, Any]]) -> None:
    for case in golden:
        assert tokenizer.encode(case["text"]) == case["ids"], case["text"]


def test_golden_texts_come_back(tokenizer: Tokenizer, golden: list[dict[str, Any]]) -> None:
    for case in golden:
        assert tokenizer.decode(tokenizer.encode(case["text"], special=False)) == case["text"]


def test_default_model_is_quick_to_read(model_path: Path) -> None:
    began = time.process_time()
    load_tokenizer(load(model_path))
    # Measured at 0.15 s; the bound only catches a return to seconds.
    assert time.process_time() - began < 1.0


def test_default_model_facts(tokenizer: Tokenizer) -> None:
    assert (tokenizer.vocab_size, tokenizer.bos, tokenizer.eos) == (49152, 1, frozenset({0, 2}))
    assert [tokenizer.token_bytes(i) for i in (0, 1, 2, 49151 + 1, -1)] == [b""] * 5
    assert tokenizer.token_bytes(905) == b" world"


@pytest.fixture(scope="session")
def spelt(tokenizer: Tokenizer) -> set[int]:
    """The bytes that have a token; the default model lacks a few control characters and unused planes."""
    tokens = map(tokenizer.token_bytes, range(tokenizer.vocab_size))
    return {token[0] for token in tokens if len(token) == 1}


def test_nearly_every_byte_has_a_token(spelt: set[int]) -> None:
    missing = set(range(256)) - spelt
    assert all(byte < 32 or byte > 0xF0 or byte in (0xC0, 0xC1) for byte in missing)


@given(text=st.text(max_size=60))
def test_any_text_comes_back(tokenizer: Tokenizer, spelt: set[int], text: str) -> None:
    text = "".join(character for character in text if spelt.issuperset(character.encode()))
    ids = tokenizer.encode(text, special=False)
    assert tokenizer.decode(ids) == text
    assert all(0 <= i < tokenizer.vocab_size for i in ids)


def test_special_tokens_only_where_asked(tokenizer: Tokenizer) -> None:
    assert tokenizer.encode("<|im_end|>") == [2]
    plain = tokenizer.encode("<|im_end|>", special=False)
    assert 2 not in plain
    assert tokenizer.decode(plain) == "<|im_end|>"


def test_half_a_surrogate_pair_is_refused(tokenizer: Tokenizer) -> None:
    with pytest.raises(RequestError, match="not valid Unicode"):
        tokenizer.encode("a\ud800b")


@pytest.mark.parametrize(
    ("pre", "text", "words"),
    [
        ("gpt-2", "in 1234  the's", ["in", " 1234", " ", " the", "'s"]),
        ("smollm", "in 1234", ["in", " ", "1", "2", "3", "4"]),
        ("llama-bpe", "in 1234 THE'S\n\n  x", ["in", " ", "123", "4", " THE", "'S", "\n\n", " ", " x"]),
        ("qwen2", "in 12 (x)", ["in", " ", "1", "2", " (", "x", ")"]),
    ],
)
def test_words_are_cut_as_the_name_says(pre: str, text: str, words: list[str]) -> None:
    from twinfer.model.pretokenize import pre_tokenizer

    pieces = [piece for piece, _ in pre_tokenizer(pre).splitter.pre_tokenize_str(text)]
    assert [piece.replace("Ġ", " ").replace("Ċ", "\n") for piece in pieces] == words


def test_first_token_is_added_once(tmp_path: Path) -> None:
    metadata = {"tokenizer.ggml.add_bos_token": True}
    tokenizer = load_tokenizer(load(tiny.write_gguf(tmp_path / "m.gguf", metadata=metadata)))
    assert tokenizer.encode("") == [1]
    assert tokenizer.encode("the") == [1, *tokenizer.encode("the")[1:]]
    assert tokenizer.encode("<|im_start|>the") == tokenizer.encode("the")
    assert tokenizer.encode("the", special=False)[0] == 1


def sentencepiece(**changes: Any) -> Tokenizer:
    """A small SentencePiece vocabulary: specials, the 256 bytes, then pieces with falling scores."""
    pieces = ["▁", "a", "b", "c", "ab", "▁ab", "abc", "bc", "▁▁", "<tag>"]
    metadata: dict[str, Any] = {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": ["<unk>", "<s>", "</s>", *(f"<0x{b:02X}>" for b in range(256)), *pieces],
        "tokenizer.ggml.scores": [0.0] * 259
        + [-10.0, -11.0, -12.0, -13.0, -1.0, -2.0, -3.0, -0.5, -5.0, 0.0],
        "tokenizer.ggml.token_type": [2, 3, 3] + [6] * 256 + [1] * 9 + [4],
    }
    return Tokenizer(gguf_parts(GgufTokenizer(metadata | changes)), 259 + len(pieces))


def test_sentencepiece_joins_the_best_score_first() -> None:
    tokenizer = sentencepiece()
    # "bc" scores best, so "abc" is a + bc until "abc" itself can be made of them.
    assert [tokenizer.token_bytes(i) for i in tokenizer.encode("abc ab")] == [b"", b" ", b"abc", b" ab"]
    assert tokenizer.bos == 1
    assert tokenizer.eos == frozenset({2})


def test_sentencepiece_prefix_space_can_be_off() -> None:
    tokenizer = sentencepiece(**{"tokenizer.ggml.add_space_prefix": False})
    assert tokenizer.decode(tokenizer.encode("abc ab")) == "abc ab"


def test_sentencepiece_falls_back_to_bytes() -> None:
    tokenizer = sentencepiece(**{"tokenizer.ggml.add_space_prefix": False})
    ids = tokenizer.encode("ab안🤖  <tag>\n")
    assert tokenizer.decode(ids) == "ab안🤖  <tag>\n"
    assert 259 + 9 in ids
    assert tokenizer.token_bytes(3 + 0xEC) == b"\xec"


def test_sentencepiece_special_tokens() -> None:
    tokenizer = sentencepiece()
    assert tokenizer.encode("</s>") == [1, 2]
    assert 2 not in tokenizer.encode("</s>", special=False)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"tokenizer.ggml.scores": [0.0]}, "but 1 scores"),
        ({"tokenizer.ggml.token_type": [1]}, "but 1 token types"),
        ({"tokenizer.ggml.tokens": []}, "has no tokens"),
        ({"tokenizer.ggml.tokens": [1, 2]}, "must be a list of str"),
        ({"tokenizer.ggml.add_bos_token": 1}, "must be true or false"),
        ({"tokenizer.ggml.model": None}, "tokeniser 'None' is not supported; supported: gpt2, llama"),
    ],
)
def test_damaged_metadata(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ModelError, match=said):
        sentencepiece(**changes)


@pytest.mark.parametrize(
    ("piece", "spelt"), [("▁a▁", b" a "), ("<0x0A>", b"\n"), ("<0xZZ>", b"<0xZZ>"), ("é", "é".encode())]
)
def test_sentencepiece_spelling(piece: str, spelt: bytes) -> None:
    assert spell_sentencepiece(piece) == spelt
