"""Makes the shipped copies of the public traces from their originals.

    python -m benchmarks.pack_traces FOLDER

FOLDER holds AzureLLMInferenceTrace_code.csv, AzureLLMInferenceTrace_conv.csv and
mooncake_conversation_trace.jsonl. Each copy has the trace's first hour, times in milliseconds from its first
request, and block ids as ranges; nothing else is changed. Read it back with twinfer.bench.serve.traces.
"""

from __future__ import annotations

import argparse
import gzip
from pathlib import Path

import twinfer.bench
from twinfer.bench.serve import traces

HOUR = 3600
SOURCES = {
    "azure-code": "AzureLLMInferenceTrace_code.csv",
    "azure-conv": "AzureLLMInferenceTrace_conv.csv",
    "mooncake": "mooncake_conversation_trace.jsonl",
}


def packed(rows: list[traces.Row]) -> bytes:
    """A trace in Twinfer's format, the same bytes each time."""
    blocks = any(row.blocks for row in rows)
    lines = ["milliseconds,input,output" + ",blocks" * blocks]
    for row in rows:
        if row.seconds < HOUR:
            line = f"{round(row.seconds * 1000)},{row.input},{row.output}"
            lines.append(f"{line},{traces.collapse(row.blocks)}" if blocks else line)
    return gzip.compress("\n".join([*lines, ""]).encode(), 9, mtime=0)


def main() -> None:
    """Write the copies to where they are shipped."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("originals", type=Path, metavar="FOLDER")
    originals = parser.parse_args().originals
    folder = Path(twinfer.bench.__file__).parent / "traces"
    for name, source in SOURCES.items():
        data = packed(traces.read(str(originals / source)))
        (folder / traces.SHIPPED[name]).write_bytes(data)
        print(f"{traces.SHIPPED[name]}: {len(data)} bytes")


if __name__ == "__main__":
    main()
