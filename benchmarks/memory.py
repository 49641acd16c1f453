"""What a deployment costs in memory: router and engines, with a pool that is written to the last page.

Figures are PSS: memory that processes share counts once, in shares. The pool is written here, in the
serving process, which is what requests would do over time.

    python -m benchmarks.memory [--pool 1GiB] [--prefill-engines 1] [--decode-engines 1] [--save]
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from benchmarks.measuring.footprint import MIB, descendants, sizes
from benchmarks.measuring.record import save
from twinfer import LLM, SamplingParams
from twinfer.kv.region import map_region


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pool", default="1GiB", help="size of the KV pool")
    parser.add_argument("--prefill-engines", type=int, default=1)
    parser.add_argument("--decode-engines", type=int, default=1)
    parser.add_argument("--save", action="store_true", help="keep the figures in results/MACHINE/memory.json")
    args = parser.parse_args()
    began = time.perf_counter()
    with LLM(
        kv_pool_size=args.pool, prefill_engines=args.prefill_engines, decode_engines=args.decode_engines
    ) as llm:
        started = time.perf_counter() - began
        params = SamplingParams(max_tokens=16, temperature=0, ignore_eos=True)
        llm.generate([[i + 1] * 1000 for i in range(8)], params, use_tqdm=False)
        with full_pool():
            rows = [{"process": name, **in_mib(pid)} for name, pid in processes()]
    total = sum(row["pss_mib"] for row in rows)
    for row in rows:
        print("{process:<8} PSS {pss_mib:>7.1f} MiB, private {private_mib:>6.1f} MiB".format(**row))
    print(f"together PSS {total:.1f} MiB; started in {started:.2f} s")
    if args.save:
        figures = {"pool": args.pool, "processes": rows, "pss_mib": round(total, 1)}
        save("memory", {**figures, "start_seconds": round(started, 2)})


@contextmanager
def full_pool() -> Iterator[None]:
    """Have the pool, which this process has created, written and mapped to the last page."""
    entries = [entry for entry in Path("/proc/self/fd").iterdir() if entry.exists()]
    [fd] = [int(entry.name) for entry in entries if "memfd:twinfer-kv" in str(entry.readlink())]
    with map_region(fd, os.fstat(fd).st_size, writable=True) as mapped:
        whole = np.frombuffer(mapped, np.uint8)
        whole[::4096] |= 0
        yield
        del whole


def processes() -> list[tuple[str, int]]:
    """This process, which is the router, and the engines that it has started."""
    return [("router", os.getpid()), *((f"engine {i}", pid) for i, pid in enumerate(descendants("self")))]


def in_mib(pid: int) -> dict[str, float]:
    """PSS and private memory in MiB."""
    found = sizes(pid)
    private = found["Private_Clean"] + found["Private_Dirty"]
    return {"pss_mib": round(found["Pss"] / MIB, 1), "private_mib": round(private / MIB, 1)}


if __name__ == "__main__":
    main()
