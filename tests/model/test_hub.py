"""Hub names: fetched from a server that speaks the hub's protocol, from the cache, or refused in one line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import tiny
from tests.model import hub_server
from twinfer.errors import ModelError
from twinfer.model.hub import choose
from twinfer.model.load import load
from twinfer.model.resolve import resolve

GONE = "http://127.0.0.1:9"


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[hub_server.Hub]:
    """A hub with a folder, a sharded folder and two repositories of GGUF files; nothing cached."""
    plain = contents(tiny.write_folder(tmp_path / "plain"))
    gguf = tiny.write_gguf(tmp_path / "m.gguf").read_bytes()
    repos = {
        "org/tiny": plain | {"README.md": b"hi", "pytorch_model.bin": b"old"},
        "org/sharded": contents(tiny.write_folder(tmp_path / "sharded", shards=2)),
        "org/tiny-GGUF": {"README.md": b"hi", "m-Q2_K.gguf": gguf, "m-Q4_0.gguf": gguf, "m-Q8_0.gguf": gguf},
        "org/many-GGUF": {"a.gguf": gguf, "b.gguf": gguf},
        "org/adapter": {"adapter.bin": b""},
    }
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    with hub_server.serve(repos) as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        yield server


def told(model: str) -> tuple[Path, list[str]]:
    lines: list[str] = []
    return resolve(model, lines.append), lines


def refusal(model: str) -> str:
    with pytest.raises(ModelError) as caught:
        told(model)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("name", ["org/tiny", "org/sharded"])
def test_folders_are_fetched_without_what_is_not_needed(name: str, hub: hub_server.Hub) -> None:
    path, lines = told(name)
    assert load(path).description.layers == 2
    assert lines == [f"fetching {name} from {hub.url}"]
    assert not [asked for asked in hub.paths if asked.endswith((".md", ".bin"))]


def test_one_suiting_gguf_file_is_fetched(hub: hub_server.Hub) -> None:
    path, _ = told("org/tiny-GGUF")
    assert path.name == "m-Q4_0.gguf"
    assert load(path).description.name == "tiny"
    assert not [asked for asked in hub.paths if "Q8_0" in asked]


def test_a_file_can_be_named(hub: hub_server.Hub) -> None:
    assert told("org/many-GGUF:b.gguf")[0].name == "b.gguf"
    assert "has several GGUF files; name one as 'org/many-GGUF:FILE': a.gguf, b.gguf" in refusal(
        "org/many-GGUF"
    )
    assert "has no file 'c.gguf'; its GGUF files: a.gguf, b.gguf" in refusal("org/many-GGUF:c.gguf")


@pytest.mark.parametrize("name", ["org/tiny", "org/tiny-GGUF", "org/many-GGUF:b.gguf"])
def test_the_cache_serves_without_a_network(
    name: str, hub: hub_server.Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, _ = told(name)
    asked = len(hub.paths)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert told(name) == (path, [])
    assert len(hub.paths) == asked
    monkeypatch.delenv("HF_HUB_OFFLINE")
    monkeypatch.setenv("HF_ENDPOINT", GONE)
    assert told(name) == (path, [])
    monkeypatch.setenv("HF_ENDPOINT", hub.url)
    hub.broken = True
    assert told(name) == (path, [])


def test_refusals(hub: hub_server.Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    assert f"there is no model 'org/none' at {hub.url}, or it is private" in refusal("org/none")
    assert "'org/none' is no file or folder here" in refusal("org/none")
    assert f"model 'org/gated' is gated: accept its terms at {hub.url}/org/gated" in refusal("org/gated")
    assert "has neither config.json with model*.safetensors nor a GGUF file" in refusal("org/adapter")
    assert "is not a valid hub name" in refusal("org/bad--name")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert "model 'org/tiny' is not in the cache, and HF_HUB_OFFLINE is set" in refusal("org/tiny")
    monkeypatch.delenv("HF_HUB_OFFLINE")
    monkeypatch.setenv("HF_ENDPOINT", GONE)
    assert f"is not in the cache, and the hub at {GONE} cannot be reached" in refusal("org/tiny")


def test_a_file_that_vanishes_is_a_refusal(hub: hub_server.Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(handler: object, files: object, name: str) -> None:
        handler._answer(404, b"")  # type: ignore[attr-defined]

    monkeypatch.setattr(hub_server._Handler, "_file", nothing)
    assert "refuses model 'org/tiny'" in refusal("org/tiny")


def test_safetensors_are_preferred() -> None:
    names = [
        "config.json",
        "model.safetensors",
        "model-00001-of-00002.safetensors",
        "tokenizer.json",
        "q4_1.gguf",
    ]
    assert choose("a/b", names, None).files == ("config.json", "tokenizer.json", "model.safetensors")
    assert choose("a/b", names[4:], None).gguf == "q4_1.gguf"
