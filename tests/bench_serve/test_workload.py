from itertools import islice, repeat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinfer.bench.serve.load import Load, checked, plan
from twinfer.bench.serve.traces import Row
from twinfer.bench.serve.workload import Workload, jobs, laps, replay, workload
from twinfer.errors import ConfigError

ROWS = [Row(0.5 * k, 10 + k, 2) for k in range(7)]
SHARED = [Row(0.5 * k, 600, 2, (0, 10 + k)) for k in range(7)]


def work(trace=None, **options) -> Workload:
    given_options = {"length_scale": 1.0, "max_len": None, "seed": 0, **options}
    made = workload("uniform:5-50", "uniform:2-9", None, **given_options)
    return Workload(made.input, made.output, trace, made.length_scale, made.max_len, made.seed)


@given(st.integers(0, 1000), st.floats(0.1, 50), st.floats(0.1, 50))
def test_the_rate_changes_nothing_but_the_times(seed, rate, other):
    same = [
        [(job.index, job.input, job.output, job.blocks) for job in plan(work(trace, seed=seed), load)]
        for trace in (None, ROWS)
        for load in (Load(rate=rate, requests=20), Load(rate=other, requests=20))
    ]
    assert same[0] == same[1]
    assert same[2] == same[3]


@given(st.integers(0, 1000))
def test_a_lap_has_every_row_once(seed):
    two = list(islice(laps(ROWS, seed), 14))
    for lap in (two[:7], two[7:]):
        assert sorted(row.input for row in lap) == [row.input for row in ROWS]


@given(st.integers(0, 1000))
def test_shared_blocks_keep_their_order_and_each_lap_has_its_own(seed):
    rows = list(islice(laps(SHARED, seed), 14))
    seconds = [row.blocks[1] for row in rows[:7]]
    start = seconds.index(10)
    assert seconds[start:] + seconds[:start] == list(range(10, 17))
    assert all(row.blocks[0] == 0 for row in rows[:7])
    first, second = ({each for row in lap for each in row.blocks} for lap in (rows[:7], rows[7:]))
    assert not first & second


def test_replay_is_the_trace_with_its_times_multiplied():
    found = list(replay(work(SHARED, length_scale=0.5), 3.0))
    assert [job.due for job in found] == [1.5 * k for k in range(7)]
    assert [job.blocks for job in found] == [row.blocks for row in SHARED]
    assert {(job.input, job.output) for job in found} == {(300, 1)}


def test_clipping_is_told():
    long = next(jobs(work([Row(0, 500, 20)], max_len=100), repeat(0.0)))
    short = next(jobs(work([Row(0, 50, 20)], max_len=100), repeat(0.0)))
    assert (long.input, long.output, long.clipped) == (80, 20, True)
    assert (short.input, short.output, short.clipped) == (50, 20, False)


def test_requests_and_duration_end_a_plan():
    assert len(list(plan(work(), Load(rate=10, requests=25)))) == 25
    timed = list(plan(work(), Load(rate=10, duration=30)))
    assert 200 < len(timed) < 400
    assert timed[-1].due < 30
    assert len(list(plan(work(ROWS), Load(time_scale=1, duration=1.4)))) == 3
    assert len(list(plan(work(ROWS), Load(concurrency=2, requests=9)))) == 9


def test_what_is_left_open_is_filled_in():
    load = checked(Load(), False)
    assert (load.concurrency, load.requests) == (1, 100)
    assert checked(Load(rate=2, duration=5), False).requests is None


@pytest.mark.parametrize(
    ("load", "message"),
    [
        (Load(rate=1, concurrency=2), "choose one of --rate and --concurrency"),
        (Load(rate=0), "rate must be over 0, not 0"),
        (Load(rate=float("nan")), "rate must be over 0, not nan"),
        (Load(rate=float("inf"), duration=3), "needs --requests"),
        (Load(concurrency=0), "concurrency must be over 0"),
        (Load(burstiness=-1), "burstiness must be over 0, not -1"),
        (Load(duration=0), "duration must be over 0"),
        (Load(requests=0), "requests must be at least 1"),
        (Load(time_scale=1), "name one with --trace"),
    ],
)
def test_loads_that_make_no_sense(load, message):
    with pytest.raises(ConfigError, match=message):
        checked(load, False)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"length_scale": 0}, "length-scale"),
        ({"length_scale": float("inf")}, "length-scale"),
        ({"max_len": 1}, "max-len must be at least 2"),
        ({"seed": -1}, "seed must be"),
    ],
)
def test_workloads_that_make_no_sense(options, message):
    with pytest.raises(ConfigError, match=message):
        work(**options)
