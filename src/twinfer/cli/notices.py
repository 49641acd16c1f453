"""What a command says on the side: on stderr, so that stdout stays the answer's."""

from __future__ import annotations

import sys


def notice(text: str) -> None:
    print(f"twinfer: {text}", file=sys.stderr, flush=True)
