"""The goodput benchmark without any server: elimination, rows on made-up servers, what is kept of them."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.goodput import elimination
from benchmarks.goodput import rows as goodput_rows
from benchmarks.goodput.book import Book
from benchmarks.goodput.docs import show, write
from benchmarks.goodput.rows import Measuring, measure_one_by_one, measure_workload
from benchmarks.goodput.summary import summary
from benchmarks.measuring import serving
from benchmarks.measuring.serving import Launch, MeasureError, free_port
from twinfer.bench.serve.search import Search

NAMES = ("a", "b", "c", "d", "e")


def eliminated(capacities: dict[str, float], start: float, tolerance: float = 0.05) -> Any:
    now = elimination.begin(tuple(capacities), Search(start, 0.05, 100.0, tolerance, 1.21))
    tried = []
    while (wanted := elimination.next_probe(now)) is not None:
        name, rate = wanted
        tried.append(wanted)
        met = rate <= capacities[name]
        now = elimination.after(now, met, 1 - rate / capacities[name] / 10 if met else 0.5)
        assert len(tried) < 200
    return now, tried


@given(st.tuples(*[st.floats(0.01, 200)] * 5), st.floats(0.05, 100))
def test_the_best_of_several_is_found_as_if_each_had_been_searched(capacities, start):
    now, tried = eliminated(dict(zip(NAMES, capacities, strict=True)), start)
    best = max(capacities)
    rate = now.searching.passed
    assert len(set(tried)) == len(tried)
    if best < 0.05:
        assert (rate, now.best) == (None, None)
        return
    assert rate <= capacities[NAMES.index(now.best)]
    assert rate == 100 if best >= 100 else best < rate * 1.05 * 1.001


def test_only_the_best_are_tried_on():
    now, tried = eliminated({"a": 1.0, "b": 5.3, "c": 4.9, "d": 5.2, "e": 6.2}, 5.0)
    assert [name for name, rate in tried if rate == 5.0] == list(NAMES)
    assert {name for name, rate in tried if rate != 5.0} == {"b", "e"}
    assert now.best == "e"
    assert len(tried) <= 12  # of 20 that five searches would take


CAPACITIES = {"disaggregated": 3.2, "traditional": 1.0, "chunk-64": 3.1, "chunk-128": 2.7, "openvino": 0.6}


@pytest.fixture
def servers(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, float]]:
    """Servers that pass up to a rate, instead of real ones; what was asked of them. vLLM does not start."""
    asked: list[tuple[str, float]] = []

    def launch(mode: str, options: list[str]) -> Launch:
        return Launch(mode, [], 0)

    def probe(to: Launch, ask: list[str], rate: float) -> dict[str, Any]:
        if to.name == "vllm":
            raise MeasureError("vllm does not start")
        asked.append((to.name, rate))
        met = rate <= CAPACITIES.get(to.name, 0.5)
        times = {"p50": 1.0, "p90": 2.0, "p99": 18.0}
        share = 0.95 if met else 0.85
        return {"met": met, "attainment": share, "stopped_early": not met, "itl_ms": times, "others": 0.1}

    def closed(to: Launch, ask: list[str]) -> dict[str, Any]:
        asked.append((to.name, 0.0))
        seconds = {"disaggregated": 10.0, "traditional": 9.9, "chunk-256": 10.1}
        return {"duration_s": seconds.get(to.name, 12.0), "others": 0.0}

    monkeypatch.setattr(goodput_rows, "launch", launch)
    monkeypatch.setattr(goodput_rows, "probe_rate", probe)
    monkeypatch.setattr(goodput_rows, "one_by_one", closed)
    return asked


def measuring(path: Path, code: str = "1", rivals: tuple[str, ...] = ("openvino", "vllm")) -> Any:
    book = Book(path, {"code": code, "seconds": 30, "seed": 0}, {"cpu": "any"}, summary)
    return Measuring(book, 30, 0, 1, 40, rivals)


def test_a_row_is_measured_kept_and_not_measured_again(tmp_path, servers):
    to = measuring(tmp_path / "goodput.json")
    assert measure_workload(to, "conv-40") == ["vllm does not start"]
    row = json.loads((tmp_path / "goodput.json").read_text())["rows"]["conv-40"]
    for mode, capacity in CAPACITIES.items():
        if mode != "chunk-128":
            assert capacity / 1.051 <= row["goodput_req_s"][mode] <= capacity
    assert row["best_chunked"] == "chunk-64"
    assert row["met"] == {"traditional": True, "chunk-64": False, "openvino": True}
    assert row["again"]["traditional"] == [0.95]
    assert servers[-4:] == [(mode, rate) for mode, rate in row["goodput_req_s"].items()]
    before = len(servers)
    again = measuring(tmp_path / "goodput.json")
    again.book.begin("conv-40", again=False)
    measure_workload(again, "conv-40")
    assert len(servers) == before
    assert again.book.rows() == to.book.rows()


def test_an_interrupted_row_goes_on_where_it_was(tmp_path, servers, monkeypatch):
    path = tmp_path / "goodput.json"
    whole = measuring(tmp_path / "whole.json", rivals=())
    measure_workload(whole, "conv-15")
    expected = list(servers)
    servers.clear()
    probe = goodput_rows.probe_rate

    def interrupted(*args: Any) -> dict[str, Any]:
        if len(servers) == 7:
            raise KeyboardInterrupt
        return probe(*args)

    monkeypatch.setattr(goodput_rows, "probe_rate", interrupted)
    with pytest.raises(KeyboardInterrupt):
        measure_workload(measuring(path, rivals=()), "conv-15")
    monkeypatch.setattr(goodput_rows, "probe_rate", probe)
    measure_workload(measuring(path, rivals=()), "conv-15")
    assert servers == expected
    row = measuring(path).book.rows()["conv-15"]
    assert row["itl"] == {"target_ms": 15.0, "p99_ms": 18.0, "over_target": 1.2, "aim": 1.5, "met": True}


def test_a_slower_machine_gets_longer_targets_and_lower_rates(tmp_path, servers, monkeypatch):
    probe, asks = goodput_rows.probe_rate, []

    def asked(to: Launch, ask: list[str], rate: float) -> dict[str, Any]:
        asks.append(ask)
        return probe(to, ask, rate)

    monkeypatch.setattr(goodput_rows, "probe_rate", asked)
    book = Book(tmp_path / "goodput.json", {"code": "1", "seconds": 30, "slower": 4}, {"cpu": "any"}, summary)
    measure_workload(Measuring(book, 30, 0, 1, 40, (), slower=4), "conv-15")
    assert servers[0] == ("disaggregated", 1.4)
    assert all("--slo-ttft 12 --slo-tpot 0.06" in " ".join(ask) for ask in asks)
    row = book.rows()["conv-15"]
    assert row["targets"] == "TTFT 12 s, TPOT 60 ms"
    assert row["itl"] == {"target_ms": 60.0, "p99_ms": 18.0, "over_target": 0.3, "aim": 1.5, "met": True}


def test_other_code_is_measured_anew_and_other_rows_stay(tmp_path, servers):
    path = tmp_path / "goodput.json"
    measure_workload(measuring(path), "p64")
    measure_one_by_one(measuring(path))
    before = len(servers)
    newer = measuring(path, code="2")
    newer.book.begin("p64", again=False)
    measure_workload(newer, "p64")
    assert len(servers) > before
    assert {entry["code"] for entry in newer.book.entries if entry["row"] == "p64"} == {"2"}
    row = newer.book.rows()["one-by-one"]
    assert row["over"] == {"traditional": 1.01, "chunk-256": 0.99}
    assert all(row["met"].values())
    assert row["best_chunked"] == "chunk-256"


def test_the_rows_as_tables_and_pictures(tmp_path, servers):
    from benchmarks.goodput.plot import bars, curves

    to = measuring(tmp_path / "goodput.json")
    for row in ("conv-40", "conv-15", "p64"):
        measure_workload(to, row)
    measure_one_by_one(to)
    rows = to.book.rows()
    show(rows)
    document = tmp_path / "goodput.md"
    document.write_text("before\n<!-- table: benchmarks.goodput on any -->\nold\n<!-- end -->\nafter\n")
    machine = {"cpu": "any", "cores": 2, "date": "today"}
    write(machine, rows, document)
    text = document.read_text()
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "old" not in text
    assert "1.20 times the target" in text
    lines = [line for line in text.splitlines() if line.startswith("|")]
    assert len({line.count("|") for line in lines}) == 1
    assert "](pictures/any/goodput-curves.png)" in text
    bars(machine, rows, tmp_path / "bars.png")
    curves(machine, rows, to.book.entries, tmp_path / "curves.png")
    assert all((tmp_path / name).read_bytes().startswith(b"\x89PNG") for name in ("bars.png", "curves.png"))


def test_a_server_that_leaves_processes_behind_and_one_that_does_not_start(tmp_path, monkeypatch):
    monkeypatch.setattr(serving, "LOGS", tmp_path)
    monkeypatch.setattr(serving, "ENDS_WITHIN", 1.0)
    orphan = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
    port = free_port()
    script = f"""
import http.server, subprocess, sys
print(subprocess.Popen([sys.executable, "-c", {orphan!r}]).pid, flush=True)
class Models(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
http.server.HTTPServer(("127.0.0.1", {port}), Models).serve_forever()
"""
    with serving.serving(Launch("server", [sys.executable, "-c", script], port)) as url:
        assert url == f"http://127.0.0.1:{port}"
        pid = int((tmp_path / "server.log").read_text().split()[0])
        os.kill(pid, 0)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    failing = Launch("broken", [sys.executable, "-c", "raise SystemExit('no memory')"], port)
    refused = pytest.raises(MeasureError, match=r"broken does not start; see .*broken\.log")
    with refused, serving.serving(failing):
        pass
    assert "no memory" in (tmp_path / "broken.log").read_text()
