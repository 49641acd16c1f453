import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinfer.bench.serve import measures
from twinfer.bench.serve.measures import Percentiles, Slo, bound_to_miss, met
from twinfer.bench.serve.report import as_json, reasons, summarise

from .answers import FACTS, answered, run_of

times = st.floats(0.001, 100)


@given(st.lists(times, min_size=1, max_size=60))
def test_percentiles_lie_among_the_values_in_order(seconds):
    found = measures.percentiles(seconds)
    ordered = [found.p50, found.p90, found.p99]
    assert ordered == sorted(ordered)
    assert min(seconds) * 1000 - 0.001 <= found.p50
    assert found.p99 <= max(seconds) * 1000 + 0.001
    assert found.p50 == pytest.approx(1000 * np.median(seconds), abs=0.001)


def test_percentiles_of_nothing():
    assert measures.percentiles([]) == Percentiles(None, None, None, None)


def test_percentiles_interpolate():
    assert measures.percentiles([0.001 * k for k in range(101)]) == Percentiles(50, 90, 99, 50)


@pytest.mark.parametrize(
    ("ttft", "gaps", "good"),
    [(0.9, [0.03, 0.05], True), (1.1, [0.03], False), (0.9, [0.03, 0.06], False), (0.9, [], True)],
)
def test_both_targets_must_be_met(ttft, gaps, good):
    assert met(answered(ttft, gaps), Slo(1.0, 0.042)) == good
    assert not met(answered(ttft, gaps, failure="HTTP 500"), Slo(1.0, 0.042))
    assert met(answered(ttft, gaps), Slo())


@given(times, st.lists(times, max_size=8), times, times, st.floats(0, 300))
def test_nothing_is_given_up_that_would_have_met_its_targets(ttft, gaps, slo_ttft, slo_tpot, now):
    slo = Slo(slo_ttft, slo_tpot)
    whole = answered(ttft, gaps)
    running = answered(ttft, gaps)
    running.stamps = [stamp for stamp in whole.stamps if stamp <= now]
    running.last = running.stamps[-1] if running.stamps else 0.0
    running.ended = whole.ended if whole.ended <= now else 0.0
    if bound_to_miss(running, slo, now):
        assert not met(whole, slo)
    if running.ended:
        assert bound_to_miss(running, slo, now) == (not met(whole, slo))


def test_an_answer_that_cannot_make_it_is_known():
    slow = answered(0.5, [1.0] * 9)
    slow.ended, slow.stamps, slow.last = 0.0, slow.stamps[:2], slow.stamps[1]
    assert not bound_to_miss(slow, Slo(None, 0.2), 2.2)
    assert bound_to_miss(slow, Slo(None, 0.2), 2.4)
    waiting = answered(5.0, [])
    waiting.ended, waiting.stamps, waiting.last = 0.0, [], 0.0
    assert not bound_to_miss(waiting, Slo(1.0, 0.2), 0.9)
    assert bound_to_miss(waiting, Slo(1.0, 0.2), 1.1)


@given(st.lists(st.tuples(times, st.sampled_from(["", "HTTP 500", "refused"])), max_size=30))
def test_goodput_arithmetic(seen):
    answers = [answered(ttft, [0.01], failure=failure) for ttft, failure in seen]
    slo = Slo(50.0, None)
    report = summarise(run_of(answers, 10.0), slo, FACTS)
    good = sum(ttft <= 50 and not failure for ttft, failure in seen)
    assert report.goodput_req_s == pytest.approx(good / 10)
    assert report.completed + report.failed + report.refused == len(seen)
    assert report.refused == sum(failure == "refused" for _, failure in seen)
    assert report.errors.get("HTTP 500", 0) == report.failed
    assert report.slo.attainment == pytest.approx(good / len(seen) if seen else 1, abs=1e-4)
    assert report.goodput_req_s <= report.req_s + 1e-4


def test_a_report():
    answers = [answered(0.1, [0.02, 0.04]), answered(0.3, [0.03, 0.03], sent=1.0)]
    answers[1].cached_tokens = 4
    answers[1].tokens = 2
    answers.append(answered(9.0, [], failure="timeout"))
    report = summarise(run_of(answers, 2.0), Slo(1.0, 0.05), FACTS)
    assert (report.req_s, report.out_tok_s, report.in_tok_s) == (1.0, 2.5, 8.0)
    assert report.ttft_ms.p50 == pytest.approx(200)
    assert report.itl_ms.p50 == pytest.approx(30)
    assert report.e2e_ms.p99 == pytest.approx(358, abs=2)
    assert report.cached_share == 0.25
    assert report.wrong_length == 1
    assert report.errors == {"timeout": 1}
    line = as_json(report)
    assert "\n" not in line
    assert line.startswith(
        '{"completed":2,"failed":1,"duration_s":2.0,"req_s":1.0,"out_tok_s":2.5,"ttft_ms":'
    )


def test_reasons_are_the_first_message_of_each_kind():
    answers = [answered(1, [], failure=kind) for kind in ("HTTP 500", "HTTP 500", "timeout")]
    answers[0].message, answers[1].message = "first", "second"
    assert reasons(answers) == {"HTTP 500": "first"}
