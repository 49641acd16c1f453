"""What an engine spends between two decode steps outside the kernels.

An engine runs in this process as it does in its own: it hears messages, plans a step, computes it and
reports it over a socket, here to a thread that stands for the router. The time of the native calls is
taken off; the rest is overhead.

    python -m benchmarks.step_overhead [--batches 1,16,64] [--steps 300] [--threads 1] [--save]
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import zmq

from benchmarks.measuring.record import save
from twinfer.bench.rig import build_rig
from twinfer.bench.shapes import page_tables
from twinfer.cluster.cores import usable_cores
from twinfer.config import Config
from twinfer.engine.engine import Engine
from twinfer.engine.link import Link
from twinfer.engine.watch import Watch
from twinfer.kv.board import Board, board_bytes
from twinfer.kv.layout import PAGE_TOKENS
from twinfer.kv.region import SharedRegion, map_region
from twinfer.messages import Cancel, Decode, Place, Region, Sampling, Task
from twinfer.model.build import choose_isa
from twinfer.model.load import load
from twinfer.model.resolve import resolve
from twinfer.serving import decide

CONTEXT = 256
WARM_STEPS = 20


class Clock:
    """A decoder whose calls are timed; `spent` is their sum in seconds."""

    def __init__(self, decoder: Any) -> None:
        self._decoder = decoder
        self.spent = 0.0

    def forward(self, *arrays: Any) -> Any:
        began = time.perf_counter()
        tokens = self._decoder.forward(*arrays)
        self.spent += time.perf_counter() - began
        return tokens


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--batches", default="1,16,64", help="requests a step, separated by commas")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument(
        "--save", action="store_true", help="keep the figures in results/MACHINE/step_overhead.json"
    )
    args = parser.parse_args()
    batches = [int(batch) for batch in args.batches.split(",")]
    rows = measure(batches, args.steps, args.threads)
    for row in rows:
        print("batch {batch:>3}: {median_ms:.3f} ms (p90 {p90_ms:.3f}), step {step_ms:.2f} ms".format(**row))
    figures = {"threads": args.threads, "context": CONTEXT, "steps": args.steps, "overhead": rows}
    if args.save:
        save("step_overhead", figures)


def measure(batches: list[int], steps: int, threads: int) -> list[dict[str, float]]:
    checkpoint = load(resolve(None, print))
    cores = usable_cores()[:threads]
    config = Config.from_options(colocate=True, max_batch_size=max(batches))
    length = CONTEXT + WARM_STEPS + steps + 1
    tables = page_tables(max(batches), length, PAGE_TOKENS)
    pages = sum(len(table) for table in tables)
    rig = build_rig(decide(config, checkpoint, cores), cores, choose_isa(), pages)
    clock = Clock(rig.decode)
    engine = Engine(
        clock,  # type: ignore[arg-type]
        clock,  # type: ignore[arg-type]
        own_board(pages),
        page_tokens=PAGE_TOKENS,
        chunk=config.prefill_chunk,
        max_batch=config.max_batch_size,
    )
    with tempfile.TemporaryDirectory() as folder:
        link = connect(f"ipc://{Path(folder) / 'router'}")
        rows = [overhead(engine, link, clock, tables[:batch], steps) for batch in batches]
        link.close()
    return rows


def own_board(pages: int) -> Watch:
    """A board of which this process has the only slot."""
    region = SharedRegion("twinfer-bench-board", board_bytes(1, pages))
    Board(map_region(region.fd, region.nbytes, writable=True), 1).slot(0).open(1, time.monotonic_ns())
    return Watch(Place(Region(region.fd, region.nbytes), 1, 0, 1, []))


def connect(endpoint: str) -> Link:
    """An engine's link to a router that only listens."""
    context = zmq.Context()
    router = context.socket(zmq.ROUTER)
    router.linger = 0
    router.bind(endpoint)

    def listen() -> None:
        while True:
            router.recv_multipart()

    threading.Thread(target=listen, daemon=True).start()
    return Link(endpoint, "engine")


def overhead(
    engine: Engine, link: Link, clock: Clock, tables: list[list[int]], steps: int
) -> dict[str, float]:
    """Decode steps of as many requests as there are tables; whatever lies in the pages will do as KV."""
    for i, table in enumerate(tables):
        task = Task(Sampling(temperature=0.0), (), len(table) * PAGE_TOKENS)
        engine.take(Decode(i, [1], CONTEXT, table, [0] * len(table), task))
    outside, whole = [], []
    for _ in range(WARM_STEPS + steps):
        began, spent = time.perf_counter(), clock.spent
        for message in link.receive(0):
            engine.take(message)
        engine.due()
        for message in engine.step():
            link.send(message)
        took = time.perf_counter() - began
        whole.append(took * 1000)
        outside.append((took - (clock.spent - spent)) * 1000)
    for i in range(len(tables)):
        engine.take(Cancel(i, 0))
    outside = sorted(outside[WARM_STEPS:])
    return {
        "batch": len(tables),
        "median_ms": round(statistics.median(outside), 4),
        "p90_ms": round(outside[int(0.9 * (len(outside) - 1))], 4),
        "step_ms": round(statistics.median(whole[WARM_STEPS:]), 3),
    }


if __name__ == "__main__":
    main()
