"""Twinfer's engine beside its rivals', in turns on the same machine, as ratios.

Each row is measured in several rounds. A round runs every engine once, one after the other, each in a
process of its own on the same cores with the same work, and yields one ratio against each rival. What counts
is the median of the rounds' ratios against the rival that was best in that round. Twinfer runs twice, the
second time with 8-bit KV.

    python -m benchmarks.rivals.install openvino llama_cpp vllm
    python -m benchmarks.engines [--rounds 3] [--rivals openvino,llama_cpp] [--save]

With `--save` the figures go to results/MACHINE/engines.json, table and picture to docs/engines.md. A
measurement that other processes disturbed is taken again, up to `--tries` times, and the table says where
that did not help.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from benchmarks.engines.docs import write
from benchmarks.engines.plot import plot
from benchmarks.engines.rows import OURS, ROWS, Measured, Row, reached, summary
from benchmarks.measuring.quiet import BEARABLE, run_quietly
from benchmarks.measuring.record import DOCS, machine, picture, save
from benchmarks.rivals.catalog import RIVALS, is_installed, python_of
from benchmarks.rivals.folder import folder_of
from twinfer.model.resolve import resolve

CONTEXT = 256
DOCUMENT = DOCS / "engines.md"


def main() -> None:
    args = _arguments()
    model = resolve(args.model, print)
    measured = [
        summary(row, [_round(row, number, model, args) for number in range(args.rounds)]) for row in args.only
    ]
    show(measured)
    figures = {"model": model.name, "rounds": args.rounds, "context": CONTEXT, "rows": measured}
    if args.save:
        where = save("engines", figures)["machine"]
        write(where, measured, DOCUMENT)
        plot(where, measured, DOCS / picture(where, "engines"))
    else:
        print(json.dumps(figures))


def _round(row: Row, number: int, model: Path, args: argparse.Namespace) -> dict[str, Measured]:
    """Every engine once; backwards every other time, so that a drift of the machine favours nobody."""
    names = [*OURS, *args.rivals]
    found = {name: measure(name, row, model, args) for name in (names[::-1] if number % 2 else names)}
    speeds = ", ".join(f"{name} {found[name].tok_s:.0f}" for name in names)
    print(f"{row.title}, round {number + 1}: {speeds} tok/s", flush=True)
    return found


def measure(name: str, row: Row, model: Path, args: argparse.Namespace) -> Measured:
    """One engine on one row."""
    command = _command(name, model)
    command += ["--threads", str(row.threads), "--context", str(CONTEXT)]
    command += ["--prefill", row.shape if row.phase == "prefill" else ""]
    command += ["--decode", row.shape if row.phase == "decode" else ""]
    command += ["--repeats", str(args.repeats), "--steps", str(args.steps)]
    done = run_quietly(command, args.tries, args.wait)
    report = json.loads(done.stdout.splitlines()[-1])
    [figures] = report[row.phase]
    return Measured(figures["tok_s"], done.others, figures.get("share"), _facts(report))


def _command(name: str, model: Path) -> list[str]:
    if name in OURS:
        kv = ["--kv-dtype", "int8"] if name == "twinfer_int8" else []
        return [sys.executable, "-m", "twinfer.cli", "bench", "engine", "--model", str(model), *kv]
    rival = RIVALS[name]
    return [
        str(python_of(name)),
        str(rival.script),
        "--model",
        str(folder_of(model) if rival.folder else model),
    ]


def _facts(report: dict[str, Any]) -> dict[str, Any]:
    facts: dict[str, Any] = report.get("facts") or {
        key: report[key] for key in ("isa", "precision", "kv_dtype", "ceiling")
    }
    return facts


def show(measured: list[dict[str, Any]]) -> None:
    """Print the ratios beside what they must and should be."""
    table = Table(box=SIMPLE_HEAD)
    for heading in (
        "tok/s",
        "Twinfer",
        "roofline",
        "best rival",
        "",
        "ratio",
        "8-bit KV",
        "floor",
        "aim",
        "",
    ):
        table.add_column(heading, no_wrap=True)
    for row in measured:
        best = row["best_rival"]
        table.add_row(
            row["row"],
            f"{row['tok_s']['twinfer']:.0f}",
            f"{100 * row['roofline']:.0f} %",
            f"{row['tok_s'][best]:.0f}",
            RIVALS[best].title,
            *(f"{row['ratio'][name]:.2f}" for name in OURS),
            f"{row['floor']:.2f}",
            f"{row['aim']:.2f}",
            reached(row, "twinfer") + (" (disturbed)" if row["disturbed"] > BEARABLE else ""),
        )
    Console(highlight=False, width=140).print(table)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "python -m benchmarks.engines",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    here = [name for name in RIVALS if is_installed(name)]
    parser.add_argument("--model", help="a GGUF file; the default model if none")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--rivals", type=_names, default=here, help="separated by commas; all that are installed"
    )
    parser.add_argument("--only", type=_rows, default="", help="a part of the titles of the rows to measure")
    parser.add_argument("--repeats", type=int, default=3, help="of each prefill in a round")
    parser.add_argument("--steps", type=int, default=24, help="of each decode in a round")
    parser.add_argument("--tries", type=int, default=3, help="of a measurement that others disturb")
    parser.add_argument("--wait", type=float, default=20, help="seconds for others to be done, before each")
    parser.add_argument(
        "--save", action="store_true", help="keep results/MACHINE/engines.json and fill in docs/engines.md"
    )
    args = parser.parse_args()
    missing = [name for name in args.rivals if not is_installed(name)]
    if missing or not args.rivals:
        parser.error(
            f"install rivals first: python -m benchmarks.rivals.install {' '.join(missing or RIVALS)}"
        )
    return args


def _names(text: str) -> list[str]:
    unknown = [name for name in text.split(",") if name not in RIVALS]
    if unknown:
        raise argparse.ArgumentTypeError(f"{', '.join(unknown)} is none of {', '.join(RIVALS)}")
    return text.split(",")


def _rows(text: str) -> list[Row]:
    cores = machine()["cores"]
    rows = [row for row in ROWS if row.threads <= cores and text in row.title]
    if not rows:
        raise argparse.ArgumentTypeError(f"no row has '{text}' in its title and runs on {cores} cores")
    return rows


if __name__ == "__main__":
    main()
