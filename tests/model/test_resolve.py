"""What a model's name can mean, as far as no download is needed."""

from __future__ import annotations

from pathlib import Path

import pytest

from twinfer.errors import ModelError
from twinfer.model.resolve import resolve


def test_paths_win_over_hub_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "org" / "name").mkdir(parents=True)
    (tmp_path / "file.gguf").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert resolve("org/name", pytest.fail) == Path("org/name")
    assert resolve(str(tmp_path / "file.gguf"), pytest.fail) == tmp_path / "file.gguf"
    assert resolve("~/file.gguf", pytest.fail) == tmp_path / "file.gguf"


@pytest.mark.parametrize(
    "name",
    [
        "",
        "nothing",
        "./org/name",
        "../name",
        "/no/such/file.gguf",
        "org/file.gguf",
        "a/b/c",
        "a\0b",
        "x" * 5000,
    ],
)
def test_what_is_nothing_says_what_was_tried(name: str) -> None:
    with pytest.raises(ModelError) as caught:
        resolve(name, pytest.fail)
    assert "neither 'smollm2', nor an existing GGUF file or Hugging Face folder, nor a hub name" in str(
        caught.value
    )
