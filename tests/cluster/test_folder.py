"""Folders of killed processes are removed by the next one, those of living ones are not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from twinfer.cluster.folder import PREFIX, SETTLED, PrivateFolder

HOLD = """
import sys, time
from pathlib import Path
from twinfer.cluster.folder import PrivateFolder
print(PrivateFolder(Path(sys.argv[1])).path, flush=True)
time.sleep(60)
"""


def age(path: Path) -> None:
    past = path.stat().st_mtime - SETTLED - 1
    os.utime(path, (past, past))


def test_a_killed_process_s_folder_goes_with_the_next_start(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        left = Path(process.stdout.readline().strip())
        (left / "router").touch()
        age(left)
        PrivateFolder(tmp_path).remove()
        assert left.exists()
        process.kill()
        process.wait()
    assert left.exists()
    PrivateFolder(tmp_path).remove()
    assert not left.exists()


def test_only_what_is_ours_and_settled_is_removed(tmp_path: Path) -> None:
    fresh, other, link = tmp_path / f"{PREFIX}new", tmp_path / "twinfer-cache", tmp_path / f"{PREFIX}link"
    fresh.mkdir()
    other.mkdir()
    age(other)
    link.symlink_to(other)
    folder = PrivateFolder(tmp_path)
    assert fresh.exists()
    assert other.exists()
    assert folder.path.stat().st_mode & 0o777 == 0o700
    folder.remove()
    folder.remove()
    assert not folder.path.exists()
