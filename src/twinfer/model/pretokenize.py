"""How byte-level tokenisers cut a text into words before merging, by the name that GGUF files give the rule.

The expressions are the models' own, as their published tokenizer.json files state them.
"""

from __future__ import annotations

import msgspec
from tokenizers import Regex, pre_tokenizers

from twinfer.errors import ModelError

CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
LETTERS = r"[^\r\n\p{L}\p{N}]?\p{L}+"
REST = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA3 = rf"{CONTRACTIONS}|{LETTERS}|\p{{N}}{{1,3}}|{REST}"
QWEN2 = rf"{CONTRACTIONS}|{LETTERS}|\p{{N}}|{REST}"
LLAMA3_NAMES = ("llama-bpe", "llama3", "llama-v3")
NAMES = ("default", "gpt-2", "smollm", *LLAMA3_NAMES, "qwen2")


class Rule(msgspec.Struct, frozen=True, eq=False):
    """`splitter` cuts; with `whole_words`, a word that is a token needs no merges to become it."""

    splitter: pre_tokenizers.PreTokenizer
    whole_words: bool = False


def pre_tokenizer(name: str) -> Rule:
    """The rule of that name.

    Raises:
        ModelError: the name is not one of `NAMES`.
    """
    gpt2 = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    if name in ("default", "gpt-2"):
        return Rule(gpt2)
    if name == "smollm":
        return Rule(pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), gpt2]))
    if name in LLAMA3_NAMES:
        return Rule(_split(LLAMA3), whole_words=True)
    if name == "qwen2":
        return Rule(_split(QWEN2))
    raise ModelError(f"pre-tokeniser '{name}' is not supported; supported: {', '.join(NAMES)}")


def _split(expression: str) -> pre_tokenizers.PreTokenizer:
    return pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(expression), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
