"""An engine's process, seen from outside."""

import os
import signal

import pytest

from twinfer.cluster.host import Host
from twinfer.cluster.plan import EngineSpec

from ..processes import alive, wait_until


@pytest.fixture
def process(tmp_path):
    process = Host(f"ipc://{tmp_path}/none", ()).start(EngineSpec("decode-0", "decode", [0]), attempt=1)
    yield process
    process.end()


def test_a_stopped_process_is_known_from_one_that_is_busy(process):
    assert not process.stopped
    os.kill(process.pid, signal.SIGSTOP)
    wait_until(lambda: process.stopped)
    os.kill(process.pid, signal.SIGCONT)
    wait_until(lambda: not process.stopped)
    process.end()
    assert not process.stopped
    assert not alive(process.pid)
