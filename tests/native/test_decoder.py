"""The decoder on small models of odd sizes: against the NumPy reference, and against itself, bit for bit."""

import numpy as np
import pytest

from tests.native.matrices import aligned
from tests.native.runs import Piece, build, forward, logits, tables
from tests.tiny import write_folder, write_gguf
from twinfer import _native
from twinfer.kv.layout import KV_DTYPES
from twinfer.model import reference
from twinfer.model.load import load
from twinfer.model.pack import pack

SHAPES = {
    "plain": {},
    "one kv head": {"heads": 6, "kv_heads": 1, "hidden": 60, "head_dim": 34},
    "odd": {"hidden": 50, "heads": 3, "kv_heads": 3, "head_dim": 38, "ffn": 70, "layers": 3},
    "wide heads": {"hidden": 72, "heads": 2, "kv_heads": 1, "head_dim": 256, "ffn": 33},
    "untied": {"hidden": 64, "heads": 4, "kv_heads": 2, "ffn": 130, "tied": False},
}


def model(tmp_path, **sizes):
    return load(write_folder(tmp_path / "model", **sizes))


def prompt(length, seed=0):
    return np.random.default_rng(seed).integers(0, 270, length).tolist()


def run_whole(run, sequences):
    pages = tables(run, [len(tokens) for tokens in sequences])
    pieces = [Piece(tokens, 0, own) for tokens, own in zip(sequences, pages, strict=True)]
    return [logits(run, [piece])[0] for piece in pieces]


def held(checkpoint, precision):
    """The reference over the weights as a precision holds them."""
    plan = pack(checkpoint, precision)
    weights = aligned(plan.nbytes)
    plan.write(weights)
    d = checkpoint.description

    def rows(entry):
        return _native.unpack(entry, weights)

    def vector(offset):
        return weights[offset : offset + 4 * d.hidden].view(np.float32)

    def layer(entry):
        qkv = np.concatenate([rows(part) for part in entry["qkv"]])
        q, kv = d.heads * d.head_dim, d.kv_heads * d.head_dim
        pairs = rows(entry["gate_up"]).reshape(-1, 2, 16, d.hidden)
        gate, up = (pairs[:, i].reshape(-1, d.hidden)[: d.ffn] for i in (0, 1))
        return reference.Layer(
            vector(entry["attn_norm"]),
            *(qkv[:q], qkv[q : q + kv], qkv[q + kv :]),
            rows(entry["out"]),
            vector(entry["ffn_norm"]),
            *(gate, up, rows(entry["down"])),
        )

    layers = [layer(entry) for entry in plan.layout["layers"]]
    ends = rows(plan.layout["embedding"]), layers, vector(plan.layout["norm"]), rows(plan.layout["output"])
    return reference.Reference(d, *ends)


def difference(got, want):
    """Root of the mean squared difference, relative to the values."""
    return float(np.sqrt(np.mean((got - want) ** 2) / np.mean(want**2)))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("precision", ["f32", "bf16", "int8", "int4"])
def test_agrees_with_the_reference(tmp_path, isa, shape, precision):
    checkpoint = model(tmp_path, **SHAPES[shape])
    tokens = prompt(45)
    kv_dtype = "f32" if precision == "f32" else "bf16"
    got = run_whole(build(checkpoint, precision, kv_dtype, isa, pages=4), [tokens])[0]
    want = reference.logits(held(checkpoint, precision), np.array(tokens))
    assert difference(got, want) < {"f32": 1e-5, "bf16": 0.02, "int8": 0.035, "int4": 0.035}[precision]
    exact = reference.logits(reference.reference(checkpoint), np.array(tokens))
    assert difference(got, exact) < {"f32": 1e-5, "bf16": 0.02, "int8": 0.04, "int4": 0.35}[precision]


@pytest.mark.parametrize("kind", ["Q4_0", "Q4_1", "Q4_K", "Q6_K", "Q8_0", "F16"])
def test_kinds_of_a_file(tmp_path, isa, kind):
    checkpoint = load(write_gguf(tmp_path / "m.gguf", kind, hidden=256, ffn=256, heads=4))
    tokens = prompt(20)
    got = run_whole(build(checkpoint, "auto", "bf16", isa, pages=4), [tokens])[0]
    want = reference.logits(reference.reference(checkpoint), np.array(tokens))
    assert difference(got, want) < 0.06


@pytest.mark.parametrize("shape", SHAPES)
def test_keys_and_values_in_8_bits(tmp_path, isa, shape):
    checkpoint = model(tmp_path, **SHAPES[shape])
    tokens = prompt(150)
    got = run_whole(build(checkpoint, "f32", "int8", isa, pages=10), [tokens])[0]
    want = reference.logits(reference.reference(checkpoint), np.array(tokens))
    assert difference(got, want) < 0.04


@pytest.mark.parametrize(
    ("precision", "kv_dtype"),
    [("f32", "f32"), ("bf16", "bf16"), ("int8", "bf16"), ("int4", "bf16"), ("int4", "int8")],
)
@pytest.mark.parametrize("shape", ["plain", "one kv head", "odd"])
def test_batches_orders_chunks_and_threads_do_not_matter(tmp_path, isa, shape, precision, kv_dtype):
    checkpoint = model(tmp_path, **SHAPES[shape])
    run = build(checkpoint, precision, kv_dtype, isa)
    lengths = [1, 2, 15, 16, 17, 40, 130, 180]
    sequences = [prompt(length, length) for length in lengths]
    alone = run_whole(run, sequences)

    def check(pieces, wanted, threads):
        run.team.active = threads
        for got, want in zip(logits(run, pieces), wanted, strict=True):
            assert np.array_equal(got, want)

    for seed in range(3):
        order = np.random.default_rng(seed).permutation(len(lengths)).tolist()
        own = tables(run, [lengths[i] for i in order], seed + 1)
        pieces = [Piece(sequences[i], 0, pages) for i, pages in zip(order, own, strict=True)]
        check(pieces, [alone[i] for i in order], 1 + seed % 2)
    for chunk in (1, 7, 64):
        own = tables(run, lengths, chunk)
        for start in range(0, 180, chunk):
            left = [i for i, length in enumerate(lengths) if length > start]
            pieces = [Piece(sequences[i][start : start + chunk], start, own[i]) for i in left]
            check(pieces, [alone[i][start : start + chunk] for i in left], 1 + chunk % 2)


def test_more_tokens_than_a_pass_holds(tmp_path):
    run = build(model(tmp_path, context_length=2048), pages=140)
    tokens = [prompt(700, 1), prompt(1100, 2), prompt(5, 3)]
    alone = run_whole(run, tokens)
    pages = tables(run, [700, 1100, 5], 9)
    together = logits(run, [Piece(own, 0, table) for own, table in zip(tokens, pages, strict=True)])
    for got, want in zip(together, alone, strict=True):
        assert np.array_equal(got, want)


@pytest.mark.parametrize("kv_dtype", KV_DTYPES)
def test_long_contexts_are_split_between_threads(tmp_path, isa, kv_dtype):
    checkpoint = model(tmp_path, context_length=2048, heads=6, kv_heads=1, hidden=60, head_dim=34)
    run = build(checkpoint, "auto", kv_dtype, isa, threads=3, pages=90)
    tokens = prompt(1000, 4)
    pages = tables(run, [1000])[0]
    run.team.active = 1
    alone = logits(run, [Piece(tokens, 0, pages)])[0]
    short = logits(run, [Piece([7], 0, pages)])[0]
    for threads in (2, 3):
        run.team.active = threads
        table, *others = tables(run, [1000] + 20 * [1], 5)
        rest = [Piece([7], 0, other) for other in others]
        for start in (999, 990, 640):
            for before, after in ([], []), ([], rest[:1]), (rest, []), (rest[:6], rest[6:]):
                logits(run, [Piece(tokens[:start], 0, table)])
                parts = logits(run, [*before, Piece(tokens[start:], start, table), *after])
                assert np.array_equal(parts.pop(len(before)), alone[start:])
                assert all(np.array_equal(part, short) for part in parts)


def test_samples_where_asked_from_seed_and_position(tmp_path):
    run = build(model(tmp_path))
    sequences = [prompt(length, length) for length in (3, 20, 33)]
    pages = tables(run, [3, 20, 33])
    pieces = [Piece(tokens, 0, own) for tokens, own in zip(sequences, pages, strict=True)]
    greedy = forward(run, pieces)
    assert greedy.tolist() == [int(rows[-1].argmax()) for rows in logits(run, pieces)]
    assert forward(run, pieces, wanted=[True, False, True]).tolist() == [greedy[0], -1, greedy[2]]
    sampled = forward(run, pieces, [5, 6, 7])
    assert [int(forward(run, [pieces[i]], [5 + i])[0]) for i in range(3)] == sampled.tolist()


def test_bad_batches_are_value_errors(tmp_path):
    run = build(model(tmp_path), pages=4)
    good = Piece([1, 2, 3], 0, [0])
    bad = [
        Piece([1, 270000], 0, [0]),
        Piece([1, -1], 0, [0]),
        Piece([1], -1, [0]),
        Piece([1] * 17, 0, [0]),
        Piece([1], 16, [0]),
        Piece([1], 0, [4]),
        Piece([1], 0, [-1]),
        Piece([], 0, [0]),
    ]
    for piece in bad:
        with pytest.raises(ValueError, match=r"^[^\n]+$"):
            forward(run, [good, piece])
    with pytest.raises(ValueError, match="int32"):
        run.decoder.logits(*(np.zeros(1, np.int64) for _ in range(3)), np.zeros((1, 1), np.int64))
    assert forward(run, [good])[0] >= 0
