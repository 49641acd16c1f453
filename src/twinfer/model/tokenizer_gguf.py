"""A tokeniser out of a GGUF file's metadata: byte-level BPE ("gpt2") or SentencePiece-like ("llama")."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tokenizers import AddedToken, Tokenizer, models, normalizers

from twinfer.errors import ModelError
from twinfer.model.checkpoint import GgufTokenizer
from twinfer.model.pieces import ENDS, SPACE, Parts, spell_byte_level, spell_sentencepiece
from twinfer.model.pretokenize import LLAMA3_NAMES, pre_tokenizer

PREFIX = "tokenizer.ggml."
NORMAL, UNKNOWN, CONTROL, USER_DEFINED = 1, 2, 3, 4


def gguf_parts(source: GgufTokenizer) -> Parts:
    """Build the tokeniser that the metadata describe.

    Raises:
        ModelError: the metadata are incomplete, contradict each other, or name a kind not supported.
    """
    metadata = source.metadata
    model = metadata.get(PREFIX + "model")
    if model not in ("gpt2", "llama"):
        raise ModelError(f"tokeniser '{model}' is not supported; supported: gpt2, llama")
    tokens = _list(metadata, "tokens", str)
    if not tokens:
        raise ModelError("the tokeniser has no tokens")
    kinds = _list(metadata, "token_type", int, optional=True) or [NORMAL] * len(tokens)
    if len(kinds) != len(tokens):
        raise ModelError(f"the tokeniser has {len(tokens)} tokens but {len(kinds)} token types")
    sentencepiece = model == "llama"
    encoder = _sentencepiece(metadata, tokens, kinds) if sentencepiece else _byte_level(metadata, tokens)
    added = [_added(tokens[i], kinds[i]) for i in _set_apart(kinds)]
    encoder.add_tokens(added)  # pyright: ignore[reportUnknownMemberType]
    bos, eos = (1, 2) if sentencepiece else (None, None)
    return Parts(
        encoder=encoder,
        spell=spell_sentencepiece if sentencepiece else spell_byte_level,
        fixed={i: tokens[i].encode() if kinds[i] == USER_DEFINED else b"" for i in _set_apart(kinds)},
        size=len(tokens),
        bos=_token(metadata, "bos_token_id", bos, len(tokens)),
        add_bos=_flag(metadata, "add_bos_token", sentencepiece or _is_llama3(metadata)),
        eos=_ends(metadata, eos, tokens, kinds),
    )


def _byte_level(metadata: Mapping[str, Any], tokens: Sequence[str]) -> Tokenizer:
    name = metadata.get(PREFIX + "pre", "default")
    rule = pre_tokenizer(str(name))
    merges = [_pair(line) for line in _list(metadata, "merges", str)]
    encoder = _bpe(tokens, merges, ignore_merges=rule.whole_words)
    encoder.pre_tokenizer = rule.splitter
    return encoder


def _sentencepiece(metadata: Mapping[str, Any], tokens: Sequence[str], kinds: Sequence[int]) -> Tokenizer:
    scores = _list(metadata, "scores", float)
    if len(scores) != len(tokens):
        raise ModelError(f"the tokeniser has {len(tokens)} tokens but {len(scores)} scores")
    score_of = {tokens[i]: scores[i] for i in range(len(tokens)) if kinds[i] == NORMAL}
    unknown = _token(metadata, "unknown_token_id", 0, len(tokens))
    encoder = _bpe(
        tokens,
        _merges(score_of),
        unk_token=None if unknown is None else tokens[unknown],
        fuse_unk=True,
        byte_fallback=True,
    )
    spaces = normalizers.Replace(" ", SPACE)
    prefix = _flag(metadata, "add_space_prefix", True)
    encoder.normalizer = normalizers.Sequence([normalizers.Prepend(SPACE), spaces]) if prefix else spaces
    return encoder


def _merges(score_of: Mapping[str, float]) -> list[tuple[str, str]]:
    """SentencePiece joins the two neighbours whose union scores best: as BPE, every split of every piece."""
    merges = [
        (-score, piece[:cut], piece[cut:])
        for piece, score in score_of.items()
        for cut in range(1, len(piece))
        if piece[:cut] in score_of and piece[cut:] in score_of
    ]
    # Equal scores: long left halves first, as they are what a scan from the left has built by then.
    merges.sort(key=lambda merge: (merge[0], -len(merge[1]), -len(merge[2])))
    return [(left, right) for _, left, right in merges]


def _bpe(tokens: Sequence[str], merges: list[tuple[str, str]], **options: Any) -> Tokenizer:
    try:
        return Tokenizer(models.BPE({token: i for i, token in enumerate(tokens)}, merges, **options))
    except Exception as error:  # the library raises nothing narrower
        raise ModelError(f"the tokeniser's merges do not fit its tokens: {error}") from None


def _pair(merge: str) -> tuple[str, str]:
    cut = merge.find(" ", 1)
    if cut < 0:
        raise ModelError(f"the tokeniser's merge {merge[:40]!r} does not name two tokens")
    return merge[:cut], merge[cut + 1 :]


def _set_apart(kinds: Sequence[int]) -> list[int]:
    return [i for i, kind in enumerate(kinds) if kind in (UNKNOWN, CONTROL, USER_DEFINED)]


def _added(token: str, kind: int) -> AddedToken:
    return AddedToken(token, special=kind != USER_DEFINED, normalized=False)


def _ends(
    metadata: Mapping[str, Any], default: int | None, tokens: Sequence[str], kinds: Sequence[int]
) -> frozenset[int]:
    named = [
        _token(metadata, "eos_token_id", default, len(tokens)),
        _token(metadata, "eot_token_id", None, len(tokens)),
        _token(metadata, "eom_token_id", None, len(tokens)),
    ]
    known = {i for i in _set_apart(kinds) if tokens[i] in ENDS and kinds[i] != UNKNOWN}
    return frozenset(known | {token for token in named if token is not None})


def _list(metadata: Mapping[str, Any], key: str, kind: type, optional: bool = False) -> list[Any]:
    values: Any = metadata.get(PREFIX + key, [] if optional else None)
    if not isinstance(values, list) or not all(isinstance(value, kind) for value in values):  # pyright: ignore[reportUnknownVariableType]
        raise ModelError(f"metadata '{PREFIX}{key}' must be a list of {kind.__name__}")
    return values  # pyright: ignore[reportUnknownVariableType]


def _token(metadata: Mapping[str, Any], key: str, default: int | None, count: int) -> int | None:
    token = metadata.get(PREFIX + key, default if default is None or default < count else None)
    if token is None or (isinstance(token, int) and 0 <= token < count):
        return token
    raise ModelError(f"metadata '{PREFIX}{key}' is {token!r}, which is no token of the vocabulary")


def _flag(metadata: Mapping[str, Any], key: str, default: bool) -> bool:
    flag = metadata.get(PREFIX + key, default)
    if not isinstance(flag, bool):
        raise ModelError(f"metadata '{PREFIX}{key}' must be true or false, not {flag!r}")
    return flag


def _is_llama3(metadata: Mapping[str, Any]) -> bool:
    return metadata.get(PREFIX + "pre") in LLAMA3_NAMES
