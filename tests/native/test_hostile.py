"""Hostile layouts, page tables and numbers: a ValueError of one line, or a result; never memory of others.

`make sanitize` runs this with bounds checked by the compiler.
"""

import copy

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.native.matrices import aligned
from tests.native.runs import build, page_bytes
from tests.refusals import refusal
from tests.tiny import write_folder
from twinfer import _native
from twinfer.model.build import build_decoder
from twinfer.model.load import load
from twinfer.model.pack import pack

PAGES = 4
VOCAB = 271
EDGES = [
    -(1 << 63),
    -(1 << 31),
    -64,
    -1,
    0,
    1,
    2,
    3,
    16,
    63,
    64,
    1 << 20,
    (1 << 31) - 1,
    1 << 31,
    1 << 61,
    1 << 62,
]
INTEGERS = st.sampled_from(EDGES) | st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(1 << 63, 1 << 70)
JUNK = st.one_of(
    INTEGERS, st.none(), st.booleans(), st.floats(), st.text(max_size=3), st.just([]), st.just({})
)
INT32 = st.integers(-(1 << 31), (1 << 31) - 1)


@pytest.fixture(scope="module", params=["f32", "int4"])
def packed(request, tmp_path_factory):
    """A model's description, its layout and its weights, in a buffer that ends where they do."""
    folder = tmp_path_factory.mktemp("hostile") / "model"
    checkpoint = load(write_folder(folder, layers=2, hidden=40, heads=2, kv_heads=1, head_dim=18, ffn=24))
    plan = pack(checkpoint, request.param)
    weights = aligned(plan.nbytes)
    plan.write(weights)
    return checkpoint.description, plan.layout, weights


def places(layout, path=()):
    """The path of every value in a layout, containers included."""
    entries = layout.items() if isinstance(layout, dict) else enumerate(layout)
    for key, value in entries:
        yield (*path, key)
        if isinstance(value, dict | list):
            yield from places(value, (*path, key))


def mutate(layout, path, act, value):
    *way, last = path
    for key in way:
        layout = layout[key]
    if act == "set":
        layout[last] = value
    elif act == "drop":
        del layout[last]
    elif isinstance(layout[last], int) and not isinstance(layout[last], bool):
        layout[last] += value if isinstance(value, int) else 1


def build_and_run(layout, weights, pool):
    """Prompts in two sequences and a step of decode, with every page of the pool."""
    decoder = build_decoder(layout, weights, pool, _native.Team([-1]), None, "f32")
    tokens = np.arange(34, dtype=np.int32)
    tables = np.array([[0, 1], [2, 3]], np.int32)
    for rows, starts in (([17, 17], [0, 0]), ([1, 1], [17, 31])):
        count = np.array(rows, np.int32)
        decoder.logits(tokens[: sum(rows)], count, np.array(starts, np.int32), tables)


@given(st.data())
def test_mutated_layouts_are_refused_or_harmless(packed, data):
    description, layout, weights = packed
    layout = copy.deepcopy(layout)
    for _ in range(data.draw(st.integers(1, 3))):
        path = data.draw(st.sampled_from(list(places(layout))))
        mutate(layout, path, data.draw(st.sampled_from(["set", "add", "drop"])), data.draw(JUNK))
    pool = aligned(PAGES * page_bytes(description, "f32"))
    refusal(ValueError, build_and_run, layout, weights, pool)


def array(data, dtype, shapes, values):
    shape = data.draw(shapes)
    size = int(np.prod(shape))
    drawn = data.draw(st.lists(values, min_size=size, max_size=size))
    return np.array(drawn, dtype).reshape(shape)


@given(st.data())
def test_arguments_of_forward_are_refused_or_computed(hostile_run, data):
    n = data.draw(st.integers(0, 3))
    near = st.just((n,)) | st.sampled_from([(n + 1,), (n, 1), ()])
    rows = array(data, np.int32, near, st.integers(-1, 20) | INT32)
    total = int(rows.sum()) if 0 <= rows.sum() < 100 else 3
    tokens = array(
        data, np.int32, st.sampled_from([(total,), (total + 1,)]), st.integers(0, VOCAB - 1) | INT32
    )
    starts = array(data, np.int32, near, st.integers(0, 40) | INT32)
    columns = data.draw(st.integers(0, 5))
    tables = array(data, np.int32, st.just((n, columns)), st.integers(0, PAGES - 1) | INT32)
    floats = [array(data, np.float32, st.just((n,)), st.floats(width=32)) for _ in range(3)]
    top_k = array(data, np.int32, st.just((n,)), INT32)
    seeds = array(data, np.uint64, near, st.integers(0, (1 << 64) - 1))
    sample = array(data, np.bool_, near, st.booleans())

    def forward():
        sampled = hostile_run.decoder.forward(
            tokens, rows, starts, tables, sample, floats[0], top_k, floats[1], floats[2], seeds
        )
        assert sampled.shape == (n,)
        assert all(-1 <= token < VOCAB for token in sampled)

    refusal(ValueError, forward)


@pytest.fixture(scope="module")
def hostile_run(tmp_path_factory):
    checkpoint = load(write_folder(tmp_path_factory.mktemp("hostile") / "model"))
    assert checkpoint.description.vocab == VOCAB
    return build(checkpoint, "int8", "bf16", pages=PAGES)


WILD = st.floats(width=32) | st.sampled_from([np.nan, -np.nan, np.inf, -np.inf, 3.4e38, -3.4e38, 0.0])


@given(st.data())
def test_any_logits_and_any_way_to_sample_give_a_token(isa, data):
    vocab = data.draw(st.integers(1, 50))
    logits = array(data, np.float32, st.just((1, vocab)), WILD)
    arguments = [array(data, np.float32, st.just((1,)), WILD | st.floats(0, 2, width=32)) for _ in range(3)]
    top_k = array(data, np.int32, st.just((1,)), INT32 | st.integers(0, 5))
    seeds, positions = np.array([data.draw(st.integers(0, 9))], np.uint64), np.zeros(1, np.int32)
    [token] = _native.sample(isa, logits, arguments[0], top_k, *arguments[1:], seeds, positions)
    assert 0 <= token < vocab


def test_what_is_not_aligned_is_refused(packed):
    description, layout, weights = packed
    pool = aligned(PAGES * page_bytes(description, "f32") + 4)
    team = _native.Team([-1])
    shifted = aligned(len(weights) + 4)[4:]
    shifted[:] = weights
    for arrays, name in (((shifted, pool), "weights"), ((weights, pool[4:]), "pool")):
        with pytest.raises(ValueError, match=f"{name} must begin at a multiple of 64"):
            _native.Decoder(layout, *arrays, team, "", "f32")


def test_a_sequence_cannot_be_longer_than_the_pool(hostile_run):
    tables = np.zeros((1, 1 << 20), np.int32)
    one = np.ones(1, np.int32)
    with pytest.raises(ValueError, match="but the pool has 4"):
        hostile_run.decoder.logits(one, one, np.array([(1 << 24) - 2], np.int32), tables)


def test_impossible_arguments_of_single_kernels(isa):
    def floats(*shape):
        return np.zeros(shape, np.float32)

    pool, pages = np.zeros(1 << 14, np.uint8), np.zeros(1, np.int32)
    refused = [
        lambda: _native.write_kv(isa, floats(1, 1, 16), floats(1, 1, 16), pool, pages, -1, "f32"),
        lambda: _native.write_kv(isa, floats(1, 1, 16), floats(1, 1, 16), pool, pages, 16, "f32"),
        lambda: _native.write_kv(isa, floats(1, 1, 16), floats(1, 1, 16), pool, pages, (1 << 63) - 1, "f32"),
        lambda: _native.write_kv(isa, floats(1, 1, 0), floats(1, 1, 0), pool, pages, 0, "f32"),
        lambda: _native.write_kv(isa, floats(1, 1, 3), floats(1, 1, 3), pool, pages, 0, "f32"),
        lambda: _native.attention(isa, floats(1, 1, 16), pool, pages, -1, 1, 1, "f32"),
        lambda: _native.attention(isa, floats(1, 1, 16), pool, pages + 9, 0, 1, 1, "f32"),
        lambda: _native.attention(isa, floats(1, 1, 16), pool, pages, 0, 0, 1, "f32"),
        lambda: _native.attention(isa, floats(1, 1, 16), pool, pages, 0, 1, 0, "f32"),
        lambda: _native.rope(isa, floats(1, 1, 3), floats(1, 1), floats(1, 1)),
        lambda: _native.sample(isa, floats(1, 0), *hows(1)),
        lambda: _native.Team([-1] * 5000),
        lambda: _native.Team([-1], np.zeros(4, np.uint64), [4]),
        lambda: _native.Team([-1], np.zeros(4, np.uint64), [-1, -1]),
    ]

    def hows(n):
        how = [np.ones(n, np.float32), np.zeros(n, np.int32), *(np.ones(n, np.float32) for _ in range(2))]
        return [*how, np.zeros(n, np.uint64), np.zeros(n, np.int32)]

    for call in refused:
        with pytest.raises(ValueError, match=r"^[^\n]+$"):
            call()


def test_nobody_is_no_team(packed):
    _, layout, weights = packed
    with pytest.raises(TypeError):
        _native.Decoder(layout, weights, aligned(64), None)
