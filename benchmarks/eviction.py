"""What the prefix cache saves on a recorded trace: this one, and one that gives up the least recently used.

No model runs: requests of the Mooncake trace lease pages from a ledger in order, eight at a time. Prints a
table: the share of prompt tokens found, and the work of computing the others, where a page costs the more the
more tokens come before it.

    python -m benchmarks.eviction [--requests 1000] [--save]
"""

from __future__ import annotations

import argparse
import math
from collections import deque
from pathlib import Path

from benchmarks.measuring.record import fill, save
from twinfer.bench.serve.traces import BLOCK_TOKENS, Row, read
from twinfer.kv.layout import PAGE_TOKENS
from twinfer.policy.eviction import DOUBLED, CachedPages
from twinfer.policy.pages import PageLedger

DOCUMENT = Path(__file__).parents[1] / "docs" / "goodput.md"
SHORTER = 8
MOST_TOKENS = 8192
AT_A_TIME = 8
SIZES = {"1 GiB": 2912, "4 GiB": 11650, "8 GiB": 23301, "16 GiB": 46603}
"""Pages of the default model's KV in bf16."""


def chain(number: int, row: Row) -> list[bytes]:
    """Names of the pages of a request's prompt, those of its last block being its own."""
    pages = min(MOST_TOKENS, row.input // SHORTER) // PAGE_TOKENS
    per_block = BLOCK_TOKENS // SHORTER // PAGE_TOKENS
    shared = [f"{block}.{page}" for block in row.blocks for page in range(per_block)][:pages]
    return [name.encode() for name in [*shared, *(f"{number}-{page}" for page in range(len(shared), pages))]]


def replay(chains: list[list[bytes]], ledger: PageLedger) -> tuple[int, float]:
    """Pages that had to be computed, and the work that they are, in pages without attention."""
    computed, work = 0, 0.0
    running: deque[tuple[int, list[bytes]]] = deque()
    for number, names in enumerate(chains):
        found = ledger.find(names[:-1])
        while running and (len(running) >= AT_A_TIME or len(names) > ledger.free):
            other, known = running.popleft()
            ledger.publish(other, known)
            ledger.release(other)
            found = ledger.find(names[:-1])
        ledger.share(number, found)
        ledger.grant(number, len(names) - len(found))
        running.append((number, names))
        computed += len(names) - len(found)
        work += sum(1 + (place + 0.5) / DOUBLED for place in range(len(found), len(names)))
    return computed, work


def compare(chains: list[list[bytes]], pages: int) -> dict[str, float]:
    """Shares of the prompts' pages that were found, and what was computed over what LRU has computed."""
    total = sum(len(names) for names in chains)
    lru = replay(chains, PageLedger(pages, cached=CachedPages(math.inf, 1)))
    own = replay(chains, PageLedger(pages))
    return {
        "found_lru": round(1 - lru[0] / total, 4),
        "found": round(1 - own[0] / total, 4),
        "tokens_over_lru": round(own[0] / lru[0], 4),
        "work_over_lru": round(own[1] / lru[1], 4),
    }


def table(sizes: dict[str, dict[str, float]]) -> list[str]:
    """Lines of the table in the document."""
    line = "| {} | {found_lru:.1%} | {found:.1%} | {tokens_over_lru:.3f} | {work_over_lru:.3f} |"
    heads = [
        "| pool | found, LRU | found | tokens computed over LRU's | work over LRU's |",
        "|---|---|---|---|---|",
    ]
    return heads + [line.format(size, **row) for size, row in sizes.items()]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--requests", type=int, help="of the trace's beginning; all if not said")
    parser.add_argument("--save", action="store_true", help="keep the figures, and fill in docs/goodput.md")
    args = parser.parse_args()
    chains = [names for number, row in enumerate(read("mooncake")) if (names := chain(number, row))]
    sizes = {size: compare(chains[: args.requests], pages) for size, pages in SIZES.items()}
    print("\n".join(table(sizes)))
    if args.save:
        save("eviction", {"mooncake": sizes})
        fill(DOCUMENT, "eviction", table(sizes))


if __name__ == "__main__":
    main()
