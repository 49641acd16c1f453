"""The command line. `main` is the program `twinfer`."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the program on `sys.argv`. Errors raised on purpose are one line on stderr and exit code 2."""
    from twinfer.cli.commands import app
    from twinfer.errors import TwinferError

    try:
        app(prog_name="twinfer")
    except TwinferError as error:
        print(f"twinfer: error: {error}", file=sys.stderr)
        raise SystemExit(2) from None
