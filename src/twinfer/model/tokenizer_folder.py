"""A tokeniser out of a Hugging Face folder's tokenizer.json."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

import msgspec
from tokenizers import Tokenizer

from twinfer.errors import ModelError
from twinfer.model.checkpoint import FolderTokenizer
from twinfer.model.pieces import ENDS, Parts, spell_byte_level, spell_sentencepiece


class _Model(msgspec.Struct):
    type: str | None = None
    byte_fallback: bool = False


class _Json(msgspec.Struct):
    """The part of tokenizer.json that says how pieces spell bytes."""

    model: _Model
    pre_tokenizer: Any = None
    decoder: Any = None


def folder_parts(source: FolderTokenizer) -> Parts:
    """Build the tokeniser that tokenizer.json describes.

    Raises:
        ModelError: the file is damaged, or neither byte-level nor SentencePiece-like BPE.
    """
    spell = _spelling(source.tokenizer)
    try:
        encoder = Tokenizer.from_str(source.tokenizer)
    except Exception as error:  # the library raises nothing narrower
        raise ModelError(f"tokenizer.json is damaged: {error}") from None
    encoder.no_truncation()
    encoder.no_padding()
    added = encoder.get_added_tokens_decoder()
    ends = {token for token, entry in added.items() if entry.special and entry.content in ENDS}
    eos = _named(encoder, source.config, "eos_token")
    first = _first_token(encoder)
    bos = _named(encoder, source.config, "bos_token")
    wanted = source.config.get("add_bos_token")
    return Parts(
        encoder=encoder,
        spell=spell,
        fixed={i: b"" if entry.special else entry.content.encode() for i, entry in added.items()},
        size=max(encoder.get_vocab(with_added_tokens=True).values(), default=-1) + 1,
        bos=next((token for token in (bos, source.bos_id, first) if token is not None), None),
        add_bos=wanted if isinstance(wanted, bool) else first is not None,
        eos=frozenset(ends | set(source.eos_ids) | ({eos} if eos is not None else set())),
    )


def _spelling(text: str) -> Callable[[str], bytes]:
    try:
        described = msgspec.json.decode(text, type=_Json)
    except msgspec.MsgspecError as error:
        raise ModelError(f"tokenizer.json is damaged: {error}") from None
    if described.model.type not in (None, "BPE"):
        raise ModelError(f"tokenizer.json holds a '{described.model.type}' tokeniser; supported: BPE")
    if "ByteLevel" in _types(described.decoder) | _types(described.pre_tokenizer):
        return spell_byte_level
    if described.model.byte_fallback:
        return spell_sentencepiece
    raise ModelError("tokenizer.json holds a BPE that is neither byte-level nor falls back to bytes")


def _types(part: Any) -> set[str]:
    """The types named in a pre-tokeniser or decoder, nested sequences included."""
    if isinstance(part, list):
        return set[str]().union(*(_types(item) for item in cast("list[Any]", part)))
    if not isinstance(part, dict):
        return set()
    fields = cast("dict[str, Any]", part)
    return {str(fields.get("type"))} | _types(list(fields.values()))


def _named(encoder: Tokenizer, config: Mapping[str, Any], key: str) -> int | None:
    """The id of a token that tokenizer_config.json names, as text or as an object with its content."""
    token = config.get(key)
    if isinstance(token, dict):
        token = cast("dict[str, Any]", token).get("content")
    return encoder.token_to_id(token) if isinstance(token, str) else None


def _first_token(encoder: Tokenizer) -> int | None:
    """The token that the tokeniser's own post-processing puts before a text."""
    bare = encoder.encode("a", add_special_tokens=False).ids
    full = encoder.encode("a", add_special_tokens=True).ids
    return full[0] if len(full) > len(bare) and full[0] != bare[0] else None
