"""The comparison with other engines: what needs none of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.engines.rows import Measured, Row, reached, summary
from benchmarks.rivals.catalog import RIVALS
from benchmarks.rivals.folder import convert
from tests import tiny
from twinfer.model.load import load


@pytest.mark.parametrize("tied", [True, False])
def test_a_model_as_a_folder_is_the_same_model(tmp_path: Path, tied: bool) -> None:
    model = load(tiny.write_gguf(tmp_path / "tiny.gguf", "BF16", tied=tied, rope_theta=5000.0))
    folder = tiny.write_folder(tmp_path / "folder", tied=tied)  # for its tokeniser
    convert(model, folder)
    again = load(folder)
    assert again.description.inv_freq == pytest.approx(model.description.inv_freq)
    assert again.tensors.keys() == model.tensors.keys()
    for name, tensor in model.tensors.items():
        if tensor.shape[0] > 1:
            np.testing.assert_array_equal(again.tensors[name].floats(), tensor.floats())


def test_the_ratio_is_the_median_over_the_best_rival_of_each_round() -> None:
    def found(ours: float, first: float, second: float) -> dict[str, Measured]:
        speeds = {"twinfer": ours, "twinfer_int8": 2 * ours, "openvino": first, "llama_cpp": second}
        return {name: Measured(speed, 0.01, 0.5, {}) for name, speed in speeds.items()}

    row = Row("decode", "16", 2, 2.4, 3.2)
    rounds = [found(300, 100, 50), found(200, 100, 200), found(240, 100, 120)]
    figures = summary(row, rounds)
    assert figures["row"] == "decode batch 16, 2 threads"
    assert figures["ratios"] == {"twinfer": [3.0, 1.0, 2.0], "twinfer_int8": [6.0, 2.0, 4.0]}
    assert figures["ratio"] == {"twinfer": 2.0, "twinfer_int8": 4.0}
    assert (reached(figures, "twinfer"), reached(figures, "twinfer_int8")) == ("below", "aim")
    assert figures["tok_s"] == {"twinfer": 240, "twinfer_int8": 480, "openvino": 100, "llama_cpp": 120}
    assert figures["best_rival"] == "llama_cpp"


def test_rivals_are_pinned() -> None:
    for rival in RIVALS.values():
        assert rival.script.exists()
        assert all("==" in requirement for requirement in rival.requirements)


def test_servers_of_rivals_want_nothing_that_is_not_filled_in() -> None:
    filled = {"home": "/rival", "model": "/model", "port": 8000, "cores": "0,1"}
    for rival in RIVALS.values():
        for text in (*rival.server, *(value for _, value in rival.serving)):
            assert "{" not in text.format(**filled)
