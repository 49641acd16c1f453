"""Install rivals, each into a virtual environment of its own under build/rivals.

    python -m benchmarks.rivals.install openvino llama_cpp

What is there already stays. OpenVINO takes half a minute, llama.cpp is compiled in about four, vLLM
brings PyTorch.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import venv

from benchmarks.rivals.catalog import HOME, RIVALS, is_installed, python_of, stamp_of


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("rivals", nargs="+", choices=sorted(RIVALS), metavar="NAME", help=", ".join(RIVALS))
    for name in parser.parse_args().rivals:
        if is_installed(name):
            print(f"{name} is installed")
        elif not install(name):
            sys.exit(f"install: error: {name} could not be installed")


def install(name: str) -> bool:
    """Make the environment anew and fill it; False when pip fails, having said why."""
    rival = RIVALS[name]
    folder = HOME / name
    shutil.rmtree(folder, ignore_errors=True)
    print(f"{name}: installing {', '.join(rival.requirements)}", flush=True)
    venv.create(folder, with_pip=True)
    pip = [str(python_of(name)), "-m", "pip", "--disable-pip-version-check"]
    environment = {**os.environ, **dict(rival.environment)}
    steps = [[*pip, "install", "--quiet", *rival.requirements]]
    if rival.unwanted:
        steps.append([*pip, "uninstall", "--quiet", "--yes", *rival.unwanted])
    for step in steps:
        if subprocess.run(step, env=environment, check=False).returncode != 0:
            return False
    stamp_of(name).write_text("\n".join(rival.requirements) + "\n")
    return True


if __name__ == "__main__":
    main()
