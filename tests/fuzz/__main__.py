"""`python -m tests.fuzz TARGET [libFuzzer's options and folders]`: runs one target under atheris."""

from __future__ import annotations

import sys
from pathlib import Path

import atheris


def main() -> None:
    name, *arguments = sys.argv[1:]
    # An editable install is found by a hook of its own, whose modules atheris would not see.
    sys.meta_path[:] = [finder for finder in sys.meta_path if "Redirecting" not in type(finder).__name__]
    sys.path.insert(0, str(Path(__file__).parents[2] / "src"))
    with atheris.instrument_imports(include=["twinfer", "jinja2"]):
        from tests.fuzz.targets import TARGETS
    atheris.Setup([f"tests.fuzz.{name}", *arguments], TARGETS[name])
    atheris.Fuzz()


if __name__ == "__main__":
    main()
