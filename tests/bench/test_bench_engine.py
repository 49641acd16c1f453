"""`twinfer bench engine`, as a user runs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import tiny
from tests.processes import PATIENCE
from twinfer import _native

SMALL = ["--threads", "1", "--repeats", "1", "--steps", "2"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.write_gguf(tmp_path_factory.mktemp("bench") / "tiny.gguf", "Q4_1")


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "twinfer.cli", "bench", "engine", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)


def refusal(*arguments: str) -> str:
    done = bench(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    return line.removeprefix("twinfer: error: ")


def test_report(model: Path, tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    shapes = ["--prefill", "3x40,1x17", "--decode", "1,3", "--context", "20", "--json", str(file)]
    done = bench("--model", str(model), *SMALL, *shapes)
    assert done.returncode == 0, done.stderr
    line = done.stdout.splitlines()[-1]
    assert file.read_text() == line + "\n"
    report = json.loads(line)
    assert [(row["n"], row["len"]) for row in report["prefill"]] == [(3, 40), (1, 17)]
    assert [(row["batch"], row["context"]) for row in report["decode"]] == [(1, 20), (3, 20)]
    for row in [*report["prefill"], *report["decode"]]:
        assert row["tok_s"] > 0
        assert row["share"] > 0
        assert row["regime"] in ("arithmetic", "memory")
    assert all(row["step_ms"] > 0 for row in report["decode"])
    assert set(report["ceiling"]) == {"int8_gops", "bf16_gflops", "f32_gflops", "read_gb_s"}
    assert all(value > 0 for value in report["ceiling"].values())
    assert (report["threads"], report["precision"], report["kv_dtype"]) == (1, ["int4", "int4"], "bf16")
    for shown in ("3x40", "batch 3", "roofline"):
        assert shown in done.stdout


def test_only_decode_in_float32_and_plain_code(model: Path) -> None:
    done = bench("--model", str(model), *SMALL, "--prefill", "", "--decode", "2", "--context", "8",
                 "--precision", "f32", "--isa", "generic")  # fmt: skip
    report = json.loads(done.stdout.splitlines()[-1])
    assert report["prefill"] == []
    assert (report["isa"], report["precision"], report["kv_dtype"]) == ("generic", ["f32", "f32"], "f32")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--prefill", "8"], "'8' is no shape of prompts; write for example 8x512 for 8 of 512 tokens"),
        (["--decode", "none"], "'none' is no batch size; write for example 1,4,16"),
        (
            ["--threads", "0"],
            f"threads must be from 1 to the {len(os.sched_getaffinity(0))} usable cores, not 0",
        ),
        (["--precision", "int3"], "precision must be one of auto, f32, bf16, int8, int4, not 'int3'"),
        (["--kv-dtype", "int3"], "kv_dtype must be one of "),
        (["--isa", "mmx"], f"instruction set 'mmx' is not one of {', '.join(_native.isas())}"),
        (["--steps", "0"], "steps must be at least 1, not 0"),
        (["--prefill", "", "--decode", ""], "there is nothing to measure: give --prefill or --decode"),
        (["--prefill", "1x300"], "sequences of 300 tokens are over the model's context of 256"),
        (["--json", "/no/such/file"], "cannot write '/no/such/file': No such file or directory"),
        (["--model", "/no/such.gguf"], "/no/such.gguf"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_refusals_are_one_line(model: Path, arguments: list[str], message: str) -> None:
    defaults = ["--model", str(model), "--prefill", "1x8", "--decode", "1", "--context", "8"]
    assert message in refusal(*defaults, *arguments)


def test_help() -> None:
    done = bench("--help")
    assert "--prefill" in done.stdout
    assert done.returncode == 0
