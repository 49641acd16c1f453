"""The search, on curves and on a fake server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tqdm import tqdm

from twinfer.bench.serve import address, discover, goodput, run, search
from twinfer.bench.serve.failure import ServerError
from twinfer.bench.serve.goodput import GoodputReport, Probing
from twinfer.bench.serve.measures import Slo
from twinfer.bench.serve.search import Search
from twinfer.bench.serve.workload import workload
from twinfer.errors import ConfigError

from . import fake
from .answers import FACTS, answered, run_of
from .fake import Step, serving


def find(capacity: float, searching: Search) -> tuple[Search, list[float]]:
    """The search on a server that passes every rate up to its capacity, and the rates tried."""
    tried: list[float] = []
    while (rate := search.next_rate(searching)) is not None:
        tried.append(rate)
        searching = search.after(searching, rate, rate <= capacity)
        assert len(tried) < 60
    return searching, tried


@given(st.floats(0.001, 2000), st.floats(0.01, 500), st.floats(0.01, 0.5), st.floats(1.01, 2))
def test_the_search_ends_close_below_the_capacity(capacity, start, tolerance, step):
    begun = search.checked(Search(start, 0.05, 500.0, tolerance, step))
    ended, tried = find(capacity, begun)
    assert all(0.05 <= rate <= 500 for rate in tried)
    assert len(set(tried)) == len(tried)
    if capacity < 0.05:
        assert ended.passed is None
    elif capacity >= 500:
        assert ended.passed == 500
    else:
        assert ended.passed <= capacity < ended.failed
        assert ended.failed <= ended.passed * (1 + tolerance) * 1.001


def test_rates_are_doubled_and_then_halved_between():
    _, tried = find(5.0, Search(1.0, 0.05, 100.0, 0.2))
    assert tried == [1, 2, 4, 8, 5.657, 4.757]


def test_a_good_guess_takes_few_probes_and_a_bad_one_not_many():
    assert find(5.3, Search(5.0, 0.05, 100.0, 0.05, 1.21))[1] == [5, 6.05, 5.5, 5.244]
    assert find(40.0, Search(5.0, 0.05, 100.0, 0.5, 1.21))[1] == [5, 6.05, 7.321, 10.72, 21.44, 42.88, 30.32]
    assert find(0.9, Search(5.0, 0.05, 100.0, 0.5, 1.25))[1] == [5, 4, 3.2, 2.048, 1.024, 0.512, 0.7241]


@pytest.mark.parametrize(
    "searching",
    [
        Search(1, 0, 10, 0.1),
        Search(1, 5, 2, 0.1),
        Search(0, 1, 2, 0.1),
        Search(1, 1, 2, 0),
        Search(1, 1, 2, 0.1, 1.0),
        Search(1, 1, 2, 0.1, 2.5),
    ],
)
def test_searches_that_make_no_sense(searching):
    with pytest.raises(ConfigError):
        search.checked(searching)


@pytest.mark.parametrize(
    ("probing", "message"),
    [
        (Probing(Slo()), "needs a target"),
        (Probing(Slo(1.0), attainment=1.5), "attainment"),
        (Probing(Slo(1.0), seconds=0), "seconds"),
        (Probing(Slo(1.0), least_requests=0), "min-requests"),
    ],
)
def test_probes_that_make_no_sense(probing, message):
    with pytest.raises(ConfigError, match=message):
        goodput.checked(probing)


@given(st.integers(1, 500), st.floats(0.01, 1))
def test_misses_allowed_are_as_many_as_leave_the_attainment(requests, attainment):
    allowed = goodput.allowed_misses(requests, attainment)
    assert (requests - allowed) / requests >= attainment - 1e-6
    assert (requests - allowed - 1) / requests < attainment


def test_a_probe_that_is_stopped_has_missed():
    probing = Probing(Slo(1.0), seconds=5, least_requests=4)
    late, good = answered(2.0, []), answered(0.5, [])
    given_up = answered(0.5, [], failure="stopped")
    probe = goodput.judged(probing, 2.0, run_of([good, good, late, late, given_up]), FACTS)
    assert (probe.requests, probe.met, probe.stopped_early) == (10, False, True)
    assert probe.attainment == 0.8
    assert probe.report.completed == 4
    whole = goodput.judged(probing, 2.0, run_of([good] * 9 + [late]), FACTS)
    assert (whole.attainment, whole.met, whole.stopped_early) == (0.9, True, False)


def found_at(url: str, probing: Probing, searching: Search) -> tuple[GoodputReport, list[str]]:
    said: list[str] = []

    async def main() -> GoodputReport:
        work = workload("uniform:4-20", "4", None, length_scale=1.0, max_len=None, seed=1)
        prepared = await run.prepare(run.Server(address.parse(url)), work, said.append)
        return await goodput.find(
            prepared,
            probing,
            searching,
            FACTS,
            bar=lambda rate, requests: tqdm(disable=True),
            on_probe=lambda probe: said.append(f"{probe.rate:g} {probe.met}"),
            say=said.append,
        )

    return asyncio.run(main()), said


def limited(most: float, seconds: float) -> fake.Script:
    """A server that answers late once it has been asked for more than `most` times in a second."""
    asked: list[float] = []

    def script(path: str, body: dict[str, Any]) -> Sequence[Step]:
        if path == "/v1/models":
            return fake.models(512)
        now = asyncio.get_running_loop().time()
        asked.append(now)
        recent = sum(now - when < 0.5 for when in asked)
        return [seconds if recent > most / 2 else 0.0, *fake.answer(body["max_tokens"])]

    return script


def test_the_search_on_a_server_with_a_limit():
    probing = Probing(Slo(1.0, None), seconds=0.5, least_requests=6)
    with serving(limited(60, 2.0)) as server:
        report, said = found_at(server.url, probing, Search(16.0, 1.0, 1000.0, 1.0))
    assert report.limited_by == "server"
    assert 8 <= report.goodput_req_s <= 64
    assert [probe.rate for probe in report.probes][:1] == [16]
    assert len(said) == len(report.probes)
    assert any(probe.stopped_early for probe in report.probes)
    assert report.best.completed == next(p.requests for p in report.probes if p.rate == report.goodput_req_s)
    assert json.dumps(report.slo.ttft_s) == "1.0"


def test_probes_ask_the_same_lengths_and_never_the_same_prompts():
    probing = Probing(Slo(5.0, None), seconds=0.05, least_requests=5)
    with serving() as server:
        report, _ = found_at(server.url, probing, Search(50.0, 1.0, 100.0, 0.5))
    assert report.limited_by == "max-rate"
    assert report.goodput_req_s == 100
    canary = server.prompts()[0]
    prompts = [prompt for prompt in server.prompts() if prompt != canary]
    probes = [prompts[:5], prompts[5:10]]
    assert sorted(map(len, probes[0])) == sorted(map(len, probes[1]))
    assert not {tuple(p) for p in probes[0]} & {tuple(p) for p in probes[1]}


def test_a_server_too_slow_for_any_rate():
    def slow(path: str, body: dict[str, Any]) -> Sequence[Step]:
        steps = fake.obliging(path, body)
        return steps if path == "/v1/models" or body["max_tokens"] == 2 else [0.1, *steps]

    probing = Probing(Slo(0.01, None), seconds=0.01, least_requests=3)
    with serving(slow) as server:
        report, _ = found_at(server.url, probing, Search(100.0, 60.0, 100.0, 0.5))
    assert (report.goodput_req_s, report.limited_by, report.best) == (0, "min-rate", None)


def test_a_server_that_dies_ends_the_search():
    async def main() -> None:
        work = workload("4", "4", None, length_scale=1.0, max_len=None, seed=1)
        with serving() as server:
            prepared = await run.prepare(run.Server(address.parse(server.url)), work, print)
        with pytest.raises(ServerError, match="is gone"):
            await goodput.drained(prepared, 0.01)

    asyncio.run(main())


@pytest.mark.parametrize(
    ("steps", "reason"),
    [
        (fake.error(503, "no engine is left"), r"HTTP 503: no engine is left"),
        ([fake.EVENTS, 60.0], "timeout"),
    ],
    ids=["says so", "is silent"],
)
@pytest.mark.parametrize("good", [4, 6])  # Canaries only, and some of the probe's requests.
@pytest.mark.parametrize("least", [50.0, 100.0])  # The last probe is another one, and this.
def test_a_server_that_answers_nothing_any_more_ends_the_search(steps, reason, good, least, monkeypatch):
    monkeypatch.setattr(goodput, "DRAIN_WITHIN", 0.2)
    monkeypatch.setattr(discover, "CANARY_WITHIN", 0.3)
    left = iter(range(good))

    def script(path: str, body: dict[str, Any]) -> Sequence[Step]:
        alive = path == "/v1/models" or next(left, None) is not None
        return fake.obliging(path, body) if alive else steps

    probing = Probing(Slo(0.5, None), seconds=0.01, least_requests=4)
    with serving(script) as server, pytest.raises(ServerError, match=rf"does not answer \({reason}\)"):
        found_at(server.url, probing, Search(100.0, least, 100.0, 0.5))


def test_a_server_that_refuses_for_a_while_is_waited_for_and_not_given_up(monkeypatch):
    monkeypatch.setattr(goodput, "DRAIN_WITHIN", 0.2)

    async def main(url: str, refusals: list[bool]) -> list[bool]:
        work = workload("4", "4", None, length_scale=1.0, max_len=None, seed=1)
        prepared = await run.prepare(run.Server(address.parse(url)), work, print)
        refusals.append(True)
        busy = await goodput.drained(prepared, 10.0)
        refusals.clear()
        return [busy, await goodput.drained(prepared, 10.0)]

    refusals: list[bool] = []
    with serving(
        lambda path, body: fake.error(429, "later") if refusals else fake.obliging(path, body)
    ) as server:
        assert asyncio.run(main(server.url, refusals)) == [False, True]
