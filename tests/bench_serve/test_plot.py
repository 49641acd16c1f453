import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinfer.bench.serve import plot
from twinfer.bench.serve.measures import Slo
from twinfer.bench.serve.report import summarise
from twinfer.bench.serve.series import binned, series, thinned, top
from twinfer.errors import ConfigError

from .answers import FACTS, answered, run_of

PNG = b"\x89PNG"


@given(st.integers(0, 5000), st.integers(2, 200))
def test_thinned_places_are_few_and_span_all(count, most):
    places = thinned(count, most)
    assert len(places) == min(count, most)
    assert len(set(places.tolist())) == len(places)
    if count:
        assert (places[0], places[-1]) == (0, count - 1)


@given(st.lists(st.tuples(st.floats(0, 100), st.floats(0, 9)), max_size=80), st.integers(1, 20))
def test_bins_hold_every_value(pairs, bins):
    when, values = np.array(pairs, float).reshape(-1, 2).T
    middles, found = binned(when, values, bins, 50)
    assert len(middles) == len(found) <= bins
    assert list(middles) == sorted(middles)
    if pairs:
        assert values.min() <= found.min()
        assert found.max() <= values.max()


def test_series_are_in_seconds_and_milliseconds():
    run = run_of([answered(0.25, [0.01, 0.03], sent=2.0), answered(9, [], failure="HTTP 500")])
    ttft, tpot, itl, e2e = series(run, summarise(run, Slo(1.0, None), FACTS))
    assert (ttft.when.tolist(), ttft.values.tolist(), ttft.target) == ([2.0], [250.0], 1000.0)
    assert tpot.values == pytest.approx([20])
    assert itl.when == pytest.approx([2.26, 2.29])
    assert itl.values == pytest.approx([10, 30])
    assert e2e.values == pytest.approx([290])
    assert top(ttft) == pytest.approx(1150)


@pytest.mark.parametrize("count", [0, 1, 300])
def test_a_picture_is_drawn_of_however_much_there_is(tmp_path, count):
    run = run_of([answered(0.1 + k % 7 / 10, [0.02] * (k % 5), sent=k / 10) for k in range(count)], 30)
    plot.draw(tmp_path / "run.png", run, summarise(run, Slo(0.5, 0.001), FACTS))
    assert (tmp_path / "run.png").read_bytes().startswith(PNG)


def test_what_cannot_be_drawn_is_known_before(tmp_path, monkeypatch):
    with pytest.raises(ConfigError, match=r"--plot writes \.png, \.svg, \.pdf, not 'run\.doc'"):
        plot.check(tmp_path / "run.doc")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setattr(plot, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install 'twinfer\[plot\]'"):
        plot.check(tmp_path / "run.png")
