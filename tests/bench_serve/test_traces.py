import gzip
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinfer.bench.serve import traces
from twinfer.bench.serve.traces import Row, collapse, expand, parse, read
from twinfer.errors import ConfigError


@pytest.mark.parametrize(
    ("name", "rows", "prompt", "answer"),
    [
        ("azure-conv", 19_366, 1154.7, 211.1),
        ("azure-code", 8_819, 2047.8, 27.9),
        ("mooncake", 12_031, 12035.1, 342.6),
    ],
)
def test_shipped_traces_are_what_was_published(name, rows, prompt, answer):
    trace = read(name)
    assert len(trace) == rows
    assert sum(row.input for row in trace) / rows == pytest.approx(prompt, abs=0.1)
    assert sum(row.output for row in trace) / rows == pytest.approx(answer, abs=0.1)
    assert trace[0].seconds == 0
    assert 3000 < trace[-1].seconds < 3600
    blocks = [len(row.blocks) for row in trace]
    if name == "mooncake":
        assert blocks == [-(-row.input // traces.BLOCK_TOKENS) for row in trace]
    else:
        assert not any(blocks)


def test_azure_format_with_and_without_a_time_zone():
    header = "TIMESTAMP,ContextTokens,GeneratedTokens"
    old = [header, "2023-11-16 18:17:03.9799600,4808,10", "2023-11-16 18:17:04.0319600,3180,8"]
    new = [header, "2024-05-10 00:00:00.009930+00:00,2162,5", "2024-05-10 00:00:01+00:00,2399,0"]
    assert [row.seconds for row in parse("old", old)] == pytest.approx([0, 0.052])
    assert parse("old", old)[0].input == 4808
    assert [row.seconds for row in parse("new", new)] == pytest.approx([0, 0.99007])
    assert parse("new", new)[1].output == 1


def test_mooncake_format():
    lines = [
        json.dumps({"timestamp": 500, "input_length": 700, "output_length": 9, "hash_ids": [0, 7]}),
        json.dumps({"timestamp": 250, "input_length": 600, "output_length": 5, "hash_ids": [0, 6]}),
    ]
    assert parse("m", lines) == [Row(0.0, 600, 5, (0, 6)), Row(0.25, 700, 9, (0, 7))]


def test_own_format_from_a_file_plain_or_compressed(tmp_path):
    text = "milliseconds,input,output,blocks\n0,700,9,0 14-15\n1500,8,1,\n"
    plain, packed = tmp_path / "t.csv", tmp_path / "t.csv.gz"
    plain.write_text(text)
    packed.write_bytes(gzip.compress(text.encode()))
    rows = [Row(0.0, 700, 9, (0, 14, 15)), Row(1.5, 8, 1)]
    assert read(str(plain)) == read(str(packed)) == rows


@given(st.lists(st.integers(0, 60), max_size=40))
def test_ids_survive_being_written_as_ranges(ids):
    assert expand(collapse(ids)) == tuple(ids)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "begins with ''"),
        ("a,b\n1,2\n", "begins with 'a,b'"),
        ("milliseconds,input,output\n", "no requests"),
        ("milliseconds,input,output\n\n5,6\n", "line 3 of trace"),
        ("milliseconds,input,output\n5,6,x\n", "line 2 of trace"),
        ('{"timestamp": 1}\n', "line 1 of trace"),
        ('{"timestamp": 1, "input_length": 9, "output_length": 9, "hash_ids": [-1]}\n', "line 1 of trace"),
        ("TIMESTAMP,ContextTokens,GeneratedTokens\nyesterday,1,2\n", "line 2 of trace"),
    ],
)
def test_damage_is_told_in_one_line(tmp_path, text, message):
    path = tmp_path / "trace"
    path.write_text(text)
    with pytest.raises(ConfigError, match=message) as caught:
        read(str(path))
    assert "\n" not in str(caught.value)


def test_missing_and_binary_files(tmp_path):
    with pytest.raises(ConfigError, match="none of azure-code, azure-conv, mooncake"):
        read("azure-chat")
    (tmp_path / "t").write_bytes(gzip.compress(b"x" * 999)[:20])
    with pytest.raises(ConfigError, match="not text, or damaged"):
        read(str(tmp_path / "t"))
