"""An engine process: `python -m twinfer.engine ENDPOINT ADDRESS CORES PARENT`, started by the router.

It ends with its parent, whatever happens to that, and leaves nothing behind.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from typing import TYPE_CHECKING, NoReturn

from twinfer.engine.link import Link
from twinfer.engine.validation import Bounds, check, check_load
from twinfer.errors import BadMessageError, TwinferError
from twinfer.messages import Failed, Hello, Load, Ready
from twinfer.policy.pacing import lend_until

if TYPE_CHECKING:
    from twinfer.engine.engine import Engine
    from twinfer.engine.meter import Meter
    from twinfer.engine.watch import Watch

PR_SET_PDEATHSIG = 1


def main() -> int:
    """Introduce ourselves, build the model, and run until told to stop."""
    endpoint, address, cores, parent = sys.argv[1:5]
    if not die_with_parent(int(parent)):
        return 0
    home = [int(core) for core in cores.split(",")]
    os.sched_setaffinity(0, home)
    link = Link(endpoint, address)
    link.watch()
    try:
        link.send(Hello(os.getpid()))
        serve(link, home)
        return 0
    except (TwinferError, ValueError, MemoryError, OSError) as error:
        link.send(Failed(str(error) or type(error).__name__))
        return 1
    finally:
        link.close()


def serve(link: Link, cores: list[int]) -> None:
    """Build what the router's `Load` describes and answer its requests."""
    # Imported while the router packs the weights: NumPy and the native module take their time.
    from twinfer.engine.build import bounds, build, build_team
    from twinfer.engine.engine import Engine
    from twinfer.engine.meter import Meter
    from twinfer.engine.watch import Watch

    [load, *early] = link.receive(None)
    if not isinstance(load, Load) or early:
        raise BadMessageError("bad message: the first must be a single Load")
    check_load(load)
    watch = Watch(load.place)
    watch.start()
    team = build_team(load, cores, watch.words)
    prefill, decode = build(load, team)
    link.send(Ready(prefill.isa))
    engine = Engine(
        prefill,
        decode,
        watch,
        page_tokens=load.pool.page_tokens,
        chunk=load.prefill_chunk,
        max_batch=load.max_batch_size,
        slo_tpot=load.slo_tpot,
    )
    run(link, engine, watch, Meter(team), bounds(load))


def run(link: Link, engine: Engine, watch: Watch, meter: Meter, limits: Bounds) -> NoReturn:
    """Hear messages, compute a step, tell the router; lend our cores while there is nothing to compute."""
    while True:
        due = engine.due()
        usage = meter.report(time.monotonic(), idle=due is None)
        if usage is not None:
            link.send(usage)
        for message in link.receive(pause(due, watch, meter)):
            check(message, limits, engine.room)
            answer = engine.take(message)
            if answer is not None:
                link.send(answer)
        due = engine.due()
        now = time.monotonic()
        if due is not None and due <= now:
            meter.step(now)
            for message in engine.step():
                link.send(message)


def pause(due: float | None, watch: Watch, meter: Meter) -> float | None:
    """Seconds to wait for messages before the next step, 0 when it is due; None while there is none."""
    if due is None:
        watch.rest(None)
        return None
    now = time.monotonic()
    left = due - now
    if left <= 0:
        return 0.0
    meter.wait(now, due)
    watch.rest(lend_until(due))
    return left


def die_with_parent(parent: int) -> bool:
    """Ask the kernel to kill this process when its parent ends; False if that has happened already."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    return os.getppid() == parent


if __name__ == "__main__":
    sys.exit(main())
