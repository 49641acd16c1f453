"""Engine processes on this host: starting them, hearing of their end, ending them."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence

from twinfer.cluster.plan import EngineSpec


class EngineProcess:
    """A running engine. `address` is unique to this process, also after a restart under the same name."""

    def __init__(
        self, spec: EngineSpec, attempt: int, endpoint: str, fds: Sequence[int], program: str
    ) -> None:
        self.spec = spec
        self.attempt = attempt
        self.address = f"{spec.id}/{attempt}"
        cores = ",".join(map(str, spec.cores))
        command = [sys.executable, "-m", program, endpoint, self.address, cores, str(os.getpid())]
        # A session of its own: Ctrl-C in the terminal is the router's to handle.
        self._popen = subprocess.Popen(
            command, pass_fds=fds, stdin=subprocess.DEVNULL, start_new_session=True
        )
        self._pidfd: int | None = None

    @property
    def pid(self) -> int:
        """The process number."""
        return self._popen.pid

    def on_exit(self, heard: Callable[[int], None]) -> None:
        """Call `heard(exit_code)` in the running event loop when the process ends."""
        loop = asyncio.get_running_loop()
        self._pidfd = os.pidfd_open(self.pid)

        def ended() -> None:
            self._unwatch()
            heard(self._popen.wait())

        loop.add_reader(self._pidfd, ended)

    def kill(self) -> None:
        """Kill the process; its exit is heard of as any other."""
        self._popen.send_signal(signal.SIGKILL)

    def end(self) -> None:
        """Kill the process and wait until it is gone. Idempotent."""
        self._unwatch()
        if self._popen.poll() is None:
            self._popen.send_signal(signal.SIGKILL)
            self._popen.wait()

    def _unwatch(self) -> None:
        if self._pidfd is not None:
            asyncio.get_running_loop().remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = None


class Host:
    """Starts engines that connect to `endpoint` and inherit the shared memory `fds`.

    `program` is the module that an engine's process runs.
    """

    def __init__(self, endpoint: str, fds: Sequence[int], program: str = "twinfer.engine") -> None:
        self._program = program
        self._endpoint = endpoint
        self._fds = tuple(fds)

    def start(self, spec: EngineSpec, attempt: int) -> EngineProcess:
        """Start an engine's process; it says `Hello` on the endpoint once it is up."""
        return EngineProcess(spec, attempt, self._endpoint, self._fds, self._program)
