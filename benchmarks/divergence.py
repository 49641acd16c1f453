"""How far a precision's next-token distributions are from float32's, on answers to short questions.

The divergence is Kullback and Leibler's, of each token of the answers in tests/golden/greedy.json, every
arrangement being given the same text. It tells differences that the likelihood of a long text does not. A
token agrees if it is the most likely one of both; an answer is the same if all of its tokens agree, that is,
if greedy decoding would write it.

    python -m benchmarks.divergence [--threads 2] [--isa NAME] [--save]

`--save` keeps the figures in results/MACHINE/divergence.json and writes the table into docs/precision.md.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.measuring.decoders import arguments, arrange, log_probabilities
from benchmarks.measuring.record import DOCS, ROOT, fill, save
from twinfer.model.build import choose_isa
from twinfer.model.checkpoint import Checkpoint
from twinfer.model.load import load
from twinfer.model.resolve import resolve

EXACT = ("f32", "f32")
OTHERS = (("f32", "bf16"), ("f32", "int8"), ("auto", "f32"), ("auto", "bf16"), ("auto", "int8"))
Floats = NDArray[np.floating[Any]]


def main() -> None:
    args = arguments(__doc__, threads=2)
    checkpoint = load(resolve(None, print))
    cases = json.loads((ROOT / "tests/golden/greedy.json").read_text())["cases"]
    isa = choose_isa(args.isa)
    exact = answers(checkpoint, cases, EXACT, args.threads, isa)
    rows = []
    for kind in OTHERS:
        rows.append(compare(kind, exact, answers(checkpoint, cases, kind, args.threads, isa)))
        print(row_text(rows[-1]), flush=True)
    if args.save:
        head = ["| weights | KV | mean | 99 % below | largest | tokens that agree | same answers |"]
        fill(
            DOCS / "precision.md",
            "divergence",
            [*head, "|---|---|---|---|---|---|---|", *map(row_text, rows)],
        )
        save("divergence", {"isa": isa, "rows": rows})


def answers(
    checkpoint: Checkpoint, cases: list[dict[str, Any]], kind: tuple[str, str], threads: int, isa: str
) -> list[Floats]:
    """Log-probabilities [tokens, vocabulary] of each case's answer."""
    longest = max(len(case["prompt_ids"]) + len(case["greedy_ids"]) for case in cases)
    decoder, _, table = arrange(checkpoint, *kind, threads=threads, isa=isa, sequences=1, tokens=longest)
    return [
        log_probabilities(decoder, case["prompt_ids"] + case["greedy_ids"][:-1], table)[
            len(case["prompt_ids"]) - 1 :
        ]
        for case in cases
    ]


def compare(kind: tuple[str, str], exact: list[Floats], got: list[Floats]) -> dict[str, Any]:
    each = [(np.exp(a) * (a - b)).sum(axis=1) for a, b in zip(exact, got, strict=True)]
    agree = [a.argmax(axis=1) == b.argmax(axis=1) for a, b in zip(exact, got, strict=True)]
    divergence = np.concatenate(each)
    return {
        "precision": kind[0],
        "kv_dtype": kind[1],
        "mean": round(float(divergence.mean()), 6),
        "p99": round(float(np.quantile(divergence, 0.99)), 5),
        "largest": round(float(divergence.max()), 4),
        "agree": round(float(np.concatenate(agree).mean()), 4),
        "same": sum(bool(a.all()) for a in agree),
        "answers": len(agree),
    }


def row_text(row: dict[str, Any]) -> str:
    return (
        "| `{precision}` | `{kv_dtype}` | {mean:.5f} | {p99:.4f} | {largest:.3f} | {agree:.1%}"
        " | {same} of {answers} |"
    ).format(**row)


if __name__ == "__main__":
    main()
