"""The fuzzers for a moment, where atheris is installed; and always what their corpus holds."""

import importlib.util
import re
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.seeds import CORPUS
from tests.fuzz.targets import TARGETS

RUNS = 1500
ENTRIES = sorted(path for path in CORPUS.rglob("*") if path.is_file())
FLIPS = st.lists(st.tuples(st.integers(0, 1 << 20), st.integers(0, 255)), min_size=1, max_size=8)
SOURCES = [path for path in ENTRIES if path.parent.name != "template" or not path.name.startswith("run-")]


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_the_corpus(entry):
    TARGETS[entry.parent.name](entry.read_bytes())


@given(st.sampled_from(SOURCES), FLIPS, st.none() | st.floats(0, 1))
def test_damaged_entries(entry, flips, cut):
    data = bytearray(entry.read_bytes())
    for at, value in flips:
        data[at % len(data)] = value
    if entry.parent.name == "template":
        data[:1] = entry.read_bytes()[:1]  # not one that runs: that takes too long here
    TARGETS[entry.parent.name](bytes(data if cut is None else data[: int(len(data) * cut)]))


@pytest.mark.skipif(importlib.util.find_spec("atheris") is None, reason="atheris is not installed")
@pytest.mark.parametrize("target", TARGETS)
def test_a_moment_of_fuzzing(target, tmp_path):
    command = [sys.executable, "-m", "tests.fuzz", target, f"-runs={RUNS}", "-rss_limit_mb=4096"]
    done = subprocess.run(
        [*command, f"-artifact_prefix={tmp_path}/", "-seed=1", str(tmp_path), str(CORPUS / target)],
        capture_output=True,
        timeout=120,
    )
    said = done.stderr.decode(errors="replace")
    assert done.returncode == 0, said[-3000:]
    # So much is reached by the corpus alone; without instrumentation it would be 2.
    assert int(re.findall(r"\bcov: (\d+)", said)[-1]) > 50
