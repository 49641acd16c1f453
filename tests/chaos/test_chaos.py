"""A short run of what `make chaos` does at length."""

import asyncio

from twinfer.config import Config

from .run import run


def test_no_fault_costs_a_token(model_path):
    report = asyncio.run(run(Config(check=True, kv_pool_size=256 << 20), faults=15, seed=1))
    assert len(report.faults) == 15
    assert report.tally.lost == []
    assert report.tally.different == 0
    assert report.tally.answered > 20
    assert report.leaked_pages == 0
    assert report.stray_processes == 0
