"""How a vocabulary's pieces spell bytes, and which of them end an answer.

Two spellings exist. Byte-level: every character stands for one byte. SentencePiece: pieces are text with
"▁" for a space, and "<0x41>" for a byte that no piece covers.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import tokenizers

# Control tokens that end an answer in the chat formats in use, besides those a model names itself.
ENDS = frozenset(
    (
        *("<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|end_of_text|>", "<|endoftext|>", "<|end|>", "<|eot|>"),
        *("<end_of_turn>", "<EOT>", "</s>"),
    )
)
SPACE = "▁"


class Parts(msgspec.Struct, frozen=True, eq=False):
    """What a tokeniser is made of.

    encoder   splits text into ids, special tokens included, and adds none of its own
    spell     the bytes of a piece of the vocabulary
    fixed     bytes of the tokens that `spell` does not apply to: control tokens (none), and tokens added as
              plain text
    size      all ids are below it
    bos       the token before a text, if the model has one; `add_bos` if it wants it there
    eos       all tokens that end an answer
    """

    encoder: tokenizers.Tokenizer
    spell: Callable[[str], bytes]
    fixed: dict[int, bytes]
    size: int
    bos: int | None
    add_bos: bool
    eos: frozenset[int]


def _byte_table() -> dict[str, int]:
    # Printable Latin-1 characters stand for themselves, the other bytes for characters from 256 on.
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(b): b for b in printable} | {chr(256 + i): byte for i, byte in enumerate(others)}


BYTE_OF = _byte_table()


def spell_byte_level(piece: str) -> bytes:
    """Bytes of a byte-level piece; a character outside the byte alphabet stands for itself."""
    try:
        return bytes([BYTE_OF[character] for character in piece])
    except KeyError:
        return piece.encode()


def spell_sentencepiece(piece: str) -> bytes:
    """Bytes of a SentencePiece piece, "<0x41>" pieces included."""
    if len(piece) == 6 and piece.startswith("<0x") and piece.endswith(">"):
        try:
            return bytes([int(piece[3:5], 16)])
        except ValueError:
            pass
    return piece.replace(SPACE, " ").encode()
