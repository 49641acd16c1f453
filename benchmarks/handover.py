"""How long the hand-over takes, on an otherwise idle machine.

It is the time from the end of a prompt's last prefill kernel to the start of the decode engine's
first step with that request, both taken in the engines. In between lie the message with the first
token, the router's decision and the message with the page table; no KV moves. The size of that last
message is all that crosses, and is printed beside the KV that it stands for.

    python -m benchmarks.handover [--requests 40] [--lengths 32,512,2048] [--save]
"""

from __future__ import annotations

import argparse
import random
import statistics

import msgspec

from benchmarks.measuring.record import save
from twinfer import LLM, SamplingParams
from twinfer.kv.layout import PAGE_TOKENS
from twinfer.messages import Decode, Sampling, Task
from twinfer.policy.pages import pages_for


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--requests", type=int, default=40, help="of each length")
    parser.add_argument("--lengths", default="32,512,2048", help="prompt tokens, separated by commas")
    parser.add_argument(
        "--save", action="store_true", help="keep the figures in results/MACHINE/handover.json"
    )
    args = parser.parse_args()
    rows = []
    with LLM(kv_pool_size="512MiB", seed=0) as llm:
        llm.generate([[1, 2, 3]] * 4, SamplingParams(max_tokens=4), use_tqdm=False)
        print(f"{'prompt':>8} {'median':>9} {'p90':>9} {'max':>9} {'crosses':>9} {'KV':>10}")
        for length in map(int, args.lengths.split(",")):
            rows.append(measure(llm, length, args.requests))
            print(
                "{tokens:>8} {p50_ms:>6.3f} ms {p90_ms:>6.3f} ms {max_ms:>6.3f} ms".format(**rows[-1]), end=""
            )
            print("{message_bytes:>8} B {kv_kib:>6} KiB".format(**rows[-1]))
    figures = {"handover": rows, "kv_bytes_copied": 0}
    if args.save:
        save("handover", figures)


def measure(llm: LLM, length: int, requests: int) -> dict[str, float]:
    """Requests one after the other, each handed over while nothing else runs."""
    source = random.Random(length)
    params = SamplingParams(max_tokens=4, temperature=0, ignore_eos=True)
    times = []
    for _ in range(requests):
        prompt = [source.randrange(1000, 40000) for _ in range(length)]
        [output] = llm.generate([prompt], params, use_tqdm=False)
        times.append(output.metrics.handover * 1000)
    times.sort()
    pages = pages_for(length + PAGE_TOKENS, PAGE_TOKENS)
    message = Decode(1, [1], length, list(range(pages)), [1] * pages, Task(Sampling(), (2,), length + 4))
    return {
        "tokens": length,
        "p50_ms": statistics.median(times),
        "p90_ms": times[int(0.9 * (len(times) - 1))],
        "max_ms": times[-1],
        "message_bytes": len(msgspec.msgpack.encode(message)),
        "kv_kib": length * llm.kv_bytes_per_token // 1024,
    }


if __name__ == "__main__":
    main()
