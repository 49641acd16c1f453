from hypothesis import given
from hypothesis import strategies as st

from twinfer.router.throughput import LEAST, MOST, Throughput


@given(st.lists(st.tuples(st.integers(0, 50), st.floats(0, 100)), max_size=20), st.integers(0, 10_000))
def test_the_estimate_stays_within_its_bounds(ends, waiting):
    now = 5.0
    throughput = Throughput(now)
    for ended, pause in ends:
        now += pause
        throughput.count(ended, now)
    assert LEAST <= throughput.seconds_for(waiting, now) <= MOST


def test_it_is_the_time_that_as_many_took_lately():
    throughput = Throughput(0.0)
    assert throughput.seconds_for(100, 0.0) == MOST
    for tick in range(1, 100):
        throughput.count(2, tick / 2)
    assert 18 < throughput.seconds_for(80, 49.5) < 22
    for tick in range(1000):
        throughput.count(1, 50 + tick / 8)
    assert 9 < throughput.seconds_for(80, 175.0) < 11
    assert throughput.seconds_for(80, 600.0) == MOST
