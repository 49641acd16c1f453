"""The default model against another implementation's output, and against itself in every arrangement."""

import json

import numpy as np
import pytest

from tests.conftest import GOLDEN
from tests.native.runs import Piece, build, forward, logits, tables
from twinfer import _native

TIE = 0.001


@pytest.fixture(scope="module")
def text():
    return json.loads((GOLDEN / "nll.json").read_text())["texts"]["gpl3"]


def log_softmax(rows):
    rows = rows.astype(np.float64) - rows.max(axis=1, keepdims=True)
    return rows - np.log(np.exp(rows).sum(axis=1, keepdims=True))


def mean_nll(run, ids):
    rows = logits(run, [Piece(ids, 0, tables(run, [len(ids)])[0])])[0]
    rows = log_softmax(rows)
    return -np.mean(rows[np.arange(len(ids) - 1), ids[1:]])


@pytest.mark.parametrize(
    ("precision", "kv_dtype", "within"),
    [("f32", "f32", 0.001), ("auto", "bf16", 0.01), ("int8", "bf16", 0.01), ("bf16", "bf16", 0.01)],
)
def test_likelihood(checkpoint, text, precision, kv_dtype, within):
    got = mean_nll(build(checkpoint, precision, kv_dtype), text["ids"])
    assert abs(got / text["mean_nll"] - 1) < within


@pytest.mark.parametrize("precision", ["auto", "f32"])
def test_likelihood_with_keys_and_values_in_8_bits(checkpoint, text, precision):
    bf16, int8 = (mean_nll(build(checkpoint, precision, kind), text["ids"]) for kind in ("bf16", "int8"))
    assert int8 / bf16 < 1.005


def test_likelihood_of_short_texts_with_keys_and_values_in_8_bits(checkpoint, text):
    """The first tokens draw most of the attention; here all others share a block with them."""
    pieces = [text["ids"][i : i + 128] for i in range(0, 1024, 128)]
    runs = [build(checkpoint, "f32", kv_dtype) for kv_dtype in ("bf16", "int8")]
    bf16, int8 = (np.mean([mean_nll(run, piece) for piece in pieces]) for run in runs)
    assert int8 / bf16 < 1.005


def test_distributions_of_answers_with_keys_and_values_in_8_bits(checkpoint):
    """Kullback-Leibler divergence of the answers' tokens, which tells far more than a likelihood."""
    found = []
    for kv_dtype in ("f32", "int8"):
        run = build(checkpoint, "f32", kv_dtype)
        own = []
        for case in json.loads((GOLDEN / "greedy.json").read_text())["cases"]:
            ids = case["prompt_ids"] + case["greedy_ids"]
            rows = logits(run, [Piece(ids, 0, tables(run, [len(ids)])[0])])[0]
            own.append(log_softmax(rows[len(case["prompt_ids"]) - 1 :]))
        found.append(np.concatenate(own))
    exact, got = found
    assert (np.exp(exact) * (exact - got)).sum(axis=1).mean() < 5e-4


def test_likelihood_on_every_instruction_set(checkpoint, text, isa):
    ids = text["ids"][:512]
    best = mean_nll(build(checkpoint), ids)
    assert abs(mean_nll(build(checkpoint, isa=isa), ids) / best - 1) < 0.01


def test_greedy_tokens(checkpoint):
    """Every token up to the reference's first tie, of all prompts in one batch."""
    cases = json.loads((GOLDEN / "greedy.json").read_text())["cases"]
    prompts = [case["prompt_ids"] for case in cases]
    lengths = [len(case["prompt_ids"]) + len(case["greedy_ids"]) for case in cases]
    run = build(checkpoint, "f32", "f32", pages=256)
    pages = tables(run, lengths)
    pieces = [Piece(ids, 0, own) for ids, own in zip(prompts, pages, strict=True)]
    got = [[int(token)] for token in forward(run, pieces)]
    while left := [i for i, case in enumerate(cases) if len(got[i]) < len(case["greedy_ids"])]:
        starts = [len(prompts[i]) + len(got[i]) - 1 for i in left]
        step = [Piece(got[i][-1:], start, pages[i]) for i, start in zip(left, starts, strict=True)]
        for i, token in zip(left, forward(run, step), strict=True):
            got[i].append(int(token))
    for case, tokens in zip(cases, got, strict=True):
        ties = [i for i, margin in enumerate(case["top2_margin"]) if margin <= TIE]
        end = ties[0] if ties else len(tokens)
        assert tokens[:end] == case["greedy_ids"][:end]


@pytest.mark.parametrize("name", [name for name in _native.isas() if name != "generic"])
def test_arrangement_does_not_matter(checkpoint, text, name):
    run = build(checkpoint, isa=name)
    lengths = [1, 17, 64, 200]
    sequences = [text["ids"][length : 2 * length] for length in lengths]
    own = tables(run, lengths)
    alone = [logits(run, [Piece(ids, 0, own[i])])[0] for i, ids in enumerate(sequences)]
    run.team.active = 1
    together = logits(
        run, [Piece(ids, 0, pages) for ids, pages in zip(sequences, tables(run, lengths, 1), strict=True)]
    )
    assert all(np.array_equal(got, want) for got, want in zip(together, alone, strict=True))
    run.team.active = 2
    pages = tables(run, lengths, 2)
    for start, end in ((0, 50), (50, 51), (51, 190), (190, 200)):
        part = logits(run, [Piece(sequences[3][start:end], start, pages[3])])[0]
        assert np.array_equal(part, alone[3][start:end])
