"""Text as it may be shown while tokens still come: whole characters only, and nothing of a stop string."""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Sequence
from typing import Protocol


class Spelling(Protocol):
    """The one thing needed of a tokeniser."""

    def token_bytes(self, token: int) -> bytes:
        """The exact bytes of a token."""
        ...


class TextStream:
    """Turns one answer's tokens into text, piece by piece.

    However the tokens are grouped into pushes, the pieces join to the same text. Of several stop strings the
    one that is complete first ends the text; of those complete at the same character, the longest.

    stopped  a stop string was met; it and everything after it are withheld
    """

    def __init__(self, tokenizer: Spelling, stop: Sequence[str] = ()) -> None:
        self.stopped = False
        self._tokenizer = tokenizer
        self._stop = tuple(text for text in stop if text)
        self._begun: bytes = b""  # of a character
        self._held: str = ""  # of a stop string, perhaps

    def push(self, token_ids: Iterable[int]) -> str:
        """The text that is safe to show after these tokens, beyond what was returned before."""
        if self.stopped:
            return ""
        return self._advance(b"".join(map(self._tokenizer.token_bytes, token_ids)))

    def finish(self) -> str:
        """What was held back, now that no more tokens come; half a character becomes U+FFFD."""
        if self.stopped:
            return ""
        shown = self._advance(b"", final=True)
        held, self._held = self._held, ""
        return shown + held

    def _advance(self, data: bytes, *, final: bool = False) -> str:
        data = self._begun + data
        text, used = codecs.utf_8_decode(data, "replace", final)
        self._begun = data[used:]
        if not self._stop:
            return text
        text = self._held + text
        cut = _first_stop(text, self._stop)
        self.stopped = cut is not None
        if cut is None:
            cut = len(text) - _open_length(text, self._stop)
        self._held = "" if self.stopped else text[cut:]
        return text[:cut]


def _first_stop(text: str, stop: Sequence[str]) -> int | None:
    """Where the stop string that is complete first begins, or None."""
    found = [(at + len(word), at) for word in stop if (at := text.find(word)) >= 0]
    return min(found)[1] if found else None


def _open_length(text: str, stop: Sequence[str]) -> int:
    """How many characters at the text's end may still become a stop string."""
    for length in range(min(len(text), max(map(len, stop), default=1) - 1), 0, -1):
        tail = text[-length:]
        if any(len(word) > length and word.startswith(tail) for word in stop):
            return length
    return 0
