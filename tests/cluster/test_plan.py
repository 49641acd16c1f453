from hypothesis import given
from hypothesis import strategies as st

from twinfer.cluster.cores import split_cores, usable_cores
from twinfer.cluster.memory import free_memory
from twinfer.cluster.plan import lenders, plan_engines, team_cores
from twinfer.config import Config


@given(st.integers(1, 40), st.integers(1, 12))
def test_cores_are_dealt_out_whole_and_evenly(count, parts):
    cores = list(range(count))
    shares = split_cores(cores, parts)
    assert len(shares) == parts
    assert all(shares)
    if parts <= count:
        assert [core for share in shares for core in share] == cores
        assert max(map(len, shares)) - min(map(len, shares)) <= 1
    else:
        assert {core for share in shares for core in share} == set(cores)


def test_engines_are_named_by_role():
    specs = plan_engines(Config(prefill_engines=1, decode_engines=2), [0, 1, 2])
    assert [(spec.id, spec.role, spec.cores) for spec in specs] == [
        ("prefill-0", "prefill", [0]),
        ("decode-0", "decode", [1]),
        ("decode-1", "decode", [2]),
    ]
    [mixed] = plan_engines(Config(placement="colocate"), [0, 1])
    assert (mixed.id, mixed.role, mixed.cores) == ("mixed-0", "mixed", [0, 1])


def test_free_memory_respects_a_control_group(tmp_path):
    (tmp_path / "meminfo").write_text("MemTotal: 100 kB\nMemAvailable:   80 kB\n")
    assert free_memory(tmp_path, tmp_path) == 80 * 1024
    (tmp_path / "memory.max").write_text("50000\n")
    (tmp_path / "memory.current").write_text("20000\n")
    (tmp_path / "memory.stat").write_text("anon 1\ninactive_file 5000\n")
    assert free_memory(tmp_path, tmp_path) == 35000
    (tmp_path / "memory.max").write_text("max\n")
    assert free_memory(tmp_path, tmp_path) == 80 * 1024


def test_this_machine_has_cores_and_memory():
    assert usable_cores()
    assert free_memory() > 0


def test_cores_of_others_may_be_borrowed_unless_they_are_shared():
    specs = plan_engines(Config(prefill_engines=1, decode_engines=1), [0, 1, 2, 3])
    assert lenders(specs, 0) == [(2, 1), (3, 1)]
    assert lenders(specs, 1) == [(0, 0), (1, 0)]
    assert team_cores(specs, 1) == [(2, False), (3, False), (0, True), (1, True)]
    shared = plan_engines(Config(prefill_engines=2, decode_engines=1), [0, 1])
    assert lenders(shared, 0) == [(1, 1)]
    assert lenders(shared, 1) == []
    assert lenders(plan_engines(Config(placement="colocate"), [0, 1]), 0) == []
