"""Both commands as a user meets them: against a fake server, and against Twinfer itself."""

from __future__ import annotations

import contextlib
import inspect
import io
import json
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import msgspec
import pytest

from tests.server.process import Server
from tests.server.process import serving as serving_twinfer
from twinfer.bench.serve import goodput
from twinfer.cli import bench_load, main

from . import fake


class Done(msgspec.Struct):
    stdout: str
    stderr: str


def bench(*arguments: str, code: int = 0) -> Done:
    """Run `twinfer bench` in this process, as the program would."""
    out, err = io.StringIO(), io.StringIO()
    with (
        patch.object(sys, "argv", ["twinfer", "bench", *arguments]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        pytest.raises(SystemExit) as ended,
    ):
        main()
    assert (ended.value.code or 0) == code, err.getvalue()
    return Done(out.getvalue(), err.getvalue())


def last(done: Done) -> dict[str, Any]:
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def twinfer(model_path: Path) -> Iterator[Server]:
    with serving_twinfer("--kv-pool-size", "128MiB") as server:
        yield server


def test_serve_measures_twinfer(twinfer: Server, tmp_path: Path):
    plot, file = tmp_path / "run.svg", tmp_path / "run.json"
    done = bench(
        *("serve", "--url", twinfer.url, "--trace", "azure-conv", "--length-scale", "0.05"),
        *("--rate", "20", "--requests", "12", "--warmup", "2", "--slo-ttft", "30", "--slo-tpot", "5"),
        *("--plot", str(plot), "--json", str(file), "--progress"),
    )
    report = last(done)
    assert (report["completed"], report["failed"], report["refused"], report["wrong_length"]) == (12, 0, 0, 0)
    assert report["slo"] == {"ttft_s": 30.0, "tpot_s": 5.0, "attainment": 1.0}
    assert report["goodput_req_s"] == pytest.approx(report["req_s"])
    for latency in ("ttft_ms", "tpot_ms", "itl_ms", "e2e_ms"):
        assert 0 <= report[latency]["p50"] <= report[latency]["p90"] <= report[latency]["p99"]
    assert report["cached_share"] == 0
    assert 0 < report["client_cpu"] < 1
    assert json.loads(file.read_text()) == report
    assert "</svg>" in plot.read_text()
    assert "/12 " in done.stderr
    assert "TTFT" in done.stdout


def test_shared_prefixes_are_found_by_twinfers_cache(twinfer: Server, tmp_path: Path):
    trace = tmp_path / "trace.csv"
    trace.write_text(
        "milliseconds,input,output,blocks\n" + "".join(f"{k},600,4,0 {k + 1}\n" for k in range(4))
    )
    options = ("--concurrency", "1", "--requests", "4", "--warmup", "0", "--no-progress")
    done = bench("serve", "--url", twinfer.url, "--trace", str(trace), "--length-scale", "0.25", *options)
    assert last(done)["cached_share"] == pytest.approx(3 * 128 / (4 * 150), abs=0.01)
    assert done.stderr == ""


def test_chat_with_twinfer(twinfer: Server):
    options = ("--requests", "3", "--input", "20", "--output", "uniform:3-6", "--warmup", "0")
    report = last(bench("serve", "--url", f"{twinfer.url}/v1", "--chat", *options))
    assert (report["completed"], report["wrong_length"]) == (3, 0)
    assert report["input_tokens"] > 20


def test_goodput_of_twinfer(twinfer: Server):
    done = bench(
        *("goodput", "--url", twinfer.url, "--input", "16", "--output", "4", "--slo-ttft", "10"),
        *("--seconds", "0.2", "--min-requests", "4", "--start-rate", "5", "--max-rate", "10"),
    )
    report = last(done)
    assert report["goodput_req_s"] == 10
    assert report["limited_by"] == "max-rate"
    assert [probe["rate"] for probe in report["probes"]] == [5, 10]
    assert report["best"]["completed"] == 4
    assert "goodput 10 requests a second" in done.stdout


def test_what_both_commands_take_they_take_alike():
    first, second = (
        inspect.signature(command).parameters for command in (bench_load.serve, bench_load.goodput)
    )
    shared = first.keys() & second.keys()
    assert {"url", "trace", "slo_ttft", "json"} <= shared
    assert [first[name] for name in shared] == [second[name] for name in shared]


def test_a_server_that_answers_nothing_any_more_is_one_line_and_exit_code_1(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(goodput, "DRAIN_WITHIN", 0.2)
    left = iter(range(4))
    with fake.serving(
        lambda path, body: (
            fake.obliging(path, body)
            if path == "/v1/models" or next(left, None) is not None
            else fake.error(503, "no engine is left")
        )
    ) as server:
        done = bench("goodput", "--url", server.url, "--slo-ttft", "1", "--warmup", "0", code=1)
    reason = "does not answer (HTTP 503: no engine is left)"
    assert done.stderr == f"twinfer: error: {server.url} {reason}\n"


def test_failures_are_counted_and_told():
    replies = iter([fake.error(429, "later"), fake.error(500, "broken"), [None], fake.answer(3)])
    probes = 1

    def script(path: str, body: dict[str, Any]):
        nonlocal probes
        if path == "/v1/models" or probes:
            probes -= path != "/v1/models"
            return fake.obliging(path, body)
        return next(replies)

    with fake.serving(script) as server:
        done = bench("serve", "--url", server.url, "--requests", "4", "--output", "4", "--warmup", "0")
    report = last(done)
    assert (report["completed"], report["failed"], report["refused"]) == (1, 2, 1)
    assert report["errors"] == {"HTTP 500": 1, "disconnected": 1}
    assert "1 x HTTP 500: broken" in done.stdout
    assert "answers not as long as asked for: 1" in done.stdout


def test_a_server_that_answers_nothing_has_exit_code_1():
    probes = [True]
    with fake.serving(
        lambda path, body: (
            fake.obliging(path, body)
            if path == "/v1/models" or (probes and probes.pop())
            else fake.error(503, "overloaded")
        )
    ) as server:
        done = bench("serve", "--url", server.url, "--requests", "2", "--warmup", "0", code=1)
    assert last(done)["errors"] == {"HTTP 503": 2}
    assert last(done)["ttft_ms"] == {"p50": None, "p90": None, "p99": None, "mean": None}


@pytest.mark.parametrize("command", [["serve"], ["goodput", "--slo-ttft", "1"]])
def test_no_server_is_one_line_and_exit_code_1(command: list[str]):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    done = bench(*command, "--url", f"http://127.0.0.1:{port}", code=1)
    assert done.stdout == ""
    assert done.stderr == f"twinfer: error: no server at http://127.0.0.1:{port}: Connection refused\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["serve", "--input", "many"], "input must be a length such as 256"),
        (["serve", "--rate", "1", "--concurrency", "2"], "choose one of --rate and --concurrency"),
        (["serve", "--trace", "none.csv"], "trace 'none.csv' is none of azure-code, azure-conv, mooncake"),
        (["serve", "--url", "ftp://x"], "is not a server's URL"),
        (["serve", "--json", "/no/such/folder/x.json"], "cannot write /no/such/folder/x.json"),
        (["serve", "--slo-tpot", "0"], "slo-tpot must be over 0 seconds, not 0"),
        (["goodput"], "goodput needs a target"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_arguments_are_one_line_and_exit_code_2(arguments: list[str], message: str):
    done = bench(*arguments, code=2)
    (line,) = done.stderr.splitlines()
    assert message in line
    assert done.stdout == ""
