"""Text to token ids and back, for whatever tokeniser a checkpoint brings."""

from __future__ import annotations

from collections.abc import Iterable

import tokenizers

from twinfer.errors import ModelError, RequestError, one_line
from twinfer.model.checkpoint import Checkpoint, GgufTokenizer
from twinfer.model.pieces import Parts
from twinfer.model.tokenizer_folder import folder_parts
from twinfer.model.tokenizer_gguf import gguf_parts


class Tokenizer:
    """A model's tokeniser.

    vocab_size  ids are below it; it counts the rows of the model's embedding
    bos         the token that begins a text, or None
    eos         all tokens that end an answer
    """

    def __init__(self, parts: Parts, vocab_size: int) -> None:
        self.vocab_size = vocab_size
        self.bos = parts.bos
        self.eos = parts.eos
        self._parts = parts
        self._plain = _without_special(parts.encoder)
        self._bytes = dict(parts.fixed)

    def encode(self, text: str, special: bool = True) -> list[int]:
        """Token ids of a text.

        With `special`, control tokens written out in the text become those tokens; without, they are plain
        text. A model that wants a first token (`bos`) gets it, once.

        Raises:
            RequestError: the text holds half a surrogate pair, so it is not Unicode text.
        """
        encoder = self._parts.encoder if special else self._plain
        try:
            ids = encoder.encode(text, add_special_tokens=False).ids
        except (TypeError, UnicodeEncodeError):  # which one depends on the library's version
            raise RequestError("the text is not valid Unicode: it holds half a surrogate pair") from None
        if self._parts.add_bos and self.bos is not None and ids[:1] != [self.bos]:
            return [self.bos, *ids]
        return ids

    def token_bytes(self, token: int) -> bytes:
        """The exact bytes of a token; none for control tokens and for ids without a token."""
        known = self._bytes.get(token)
        if known is None:
            piece = self._parts.encoder.id_to_token(token) if 0 <= token < self.vocab_size else None
            known = b"" if piece is None else self._parts.spell(piece)
            self._bytes[token] = known
        return known

    def decode(self, ids: Iterable[int]) -> str:
        """The text of some tokens; bytes that are not UTF-8 become U+FFFD."""
        return b"".join(map(self.token_bytes, ids)).decode(errors="replace")


def load_tokenizer(checkpoint: Checkpoint) -> Tokenizer:
    """The tokeniser that belongs to a checkpoint.

    Raises:
        ModelError: it is missing, damaged, or of a kind that is not supported.
    """
    source, vocab_size = checkpoint.tokenizer_source, checkpoint.description.vocab
    try:
        parts = gguf_parts(source) if isinstance(source, GgufTokenizer) else folder_parts(source)
        if parts.size > vocab_size:
            raise ModelError(f"the tokeniser has {parts.size} tokens, the model only {vocab_size}")
    except ModelError as error:
        raise ModelError(f"{checkpoint.path}: {one_line(error)}") from None
    return Tokenizer(parts, vocab_size)


def _without_special(encoder: tokenizers.Tokenizer) -> tokenizers.Tokenizer:
    """The same tokeniser, for which control tokens are plain text; both share one vocabulary."""
    plain = tokenizers.Tokenizer(encoder.model)
    if encoder.normalizer is not None:
        plain.normalizer = encoder.normalizer
    if encoder.pre_tokenizer is not None:
        plain.pre_tokenizer = encoder.pre_tokenizer
    # In the order of their ids, so that tokens outside the vocabulary get the same ids again.
    added = sorted(encoder.get_added_tokens_decoder().items())
    plain.add_tokens([token for _, token in added])  # pyright: ignore[reportUnknownMemberType]
    plain.encode_special_tokens = True
    return plain
