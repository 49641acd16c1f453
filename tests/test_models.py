"""Other models than the default one, end to end: what the engines answer is what the NumPy oracle says."""

import numpy as np
import pytest

from twinfer import LLM, SamplingParams
from twinfer.errors import ModelError
from twinfer.model.load import load
from twinfer.model.reference import logits, reference

from . import tiny

PROMPT = [5, 9, 30, 12, 7, 7, 41]
GREEDY = SamplingParams(max_tokens=12, temperature=0, ignore_eos=True)


def oracle(path):
    """Greedy tokens of the plain float32 forward."""
    model = reference(load(path))
    tokens = list(PROMPT)
    for _ in range(GREEDY.max_tokens):
        tokens.append(int(np.argmax(logits(model, np.array(tokens))[-1])))
    return tokens[len(PROMPT) :]


def answer(path, **options):
    with LLM(model=str(path), kv_pool_size="4MiB", **options) as llm:
        [output] = llm.generate([PROMPT], GREEDY, use_tqdm=False)
        return output.outputs[0].token_ids


@pytest.mark.parametrize("sizes", [{}, {"tied": False}, {"heads": 3, "kv_heads": 1, "head_dim": 32}])
def test_a_hugging_face_folder_answers_like_the_oracle(tmp_path, sizes):
    tiny.write_folder(tmp_path / "model", **sizes)
    assert answer(tmp_path / "model", prefill_precision="f32", decode_precision="f32") == oracle(
        tmp_path / "model"
    )


def test_a_gguf_file_answers_like_the_oracle(tmp_path):
    tiny.write_gguf(tmp_path / "model.gguf", kind="F32")
    exact = {"prefill_precision": "f32", "decode_precision": "f32"}
    assert answer(tmp_path / "model.gguf", **exact) == oracle(tmp_path / "model.gguf")


def test_phases_may_differ_in_precision_and_answers_still_depend_on_nothing_else(tmp_path):
    tiny.write_gguf(tmp_path / "model.gguf", kind="F32")
    mixed = {"prefill_precision": "int8", "decode_precision": "f32"}
    alone = answer(tmp_path / "model.gguf", **mixed)
    assert alone == answer(tmp_path / "model.gguf", colocate=True, prefill_chunk=3, **mixed)


def test_a_damaged_file_is_one_clear_line(tmp_path):
    path = tmp_path / "model.gguf"
    tiny.write_gguf(path, kind="F32")
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ModelError, match="cut short") as caught:
        LLM(model=str(path))
    assert "\n" not in str(caught.value)
