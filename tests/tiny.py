"""Tiny random Llama models, written to disk as Hugging Face folders and GGUF files.

Both hold the same weights for the same sizes and seed, so that one reader can be held
against the other.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gguf
import ml_dtypes
import msgspec
import numpy as np
import numpy.typing as npt
from safetensors.numpy import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

Floats = npt.NDArray[np.float32]

TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
MERGES = ("t h", "th e", "i n", "e r", "a n", "o n", "Ġ the", "Ġ a", "h e", "l l", "he ll", "hell o")


class Sizes(msgspec.Struct, frozen=True, kw_only=True):
    """How large the model is, and what of it varies; the vocabulary is fixed by `vocabulary()`."""

    layers: int = 2
    hidden: int = 64
    heads: int = 4
    kv_heads: int = 2
    head_dim: int | None = None
    ffn: int = 96
    context_length: int = 256
    rms_eps: float = 1e-5
    rope_theta: float = 10000.0
    tied: bool = True
    seed: int = 0

    @property
    def head_size(self) -> int:
        return self.hidden // self.heads if self.head_dim is None else self.head_dim


def vocabulary() -> list[str]:
    """Special tokens first, then the 256 bytes, then what the merges make."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    return [*SPECIAL, *letters, *(merge.replace(" ", "") for merge in MERGES)]


def weights(sizes: Sizes) -> dict[str, Floats]:
    """Random float32 weights under GGUF's names, rope pairs interleaved; [rows, columns], norms [n]."""
    rng = np.random.default_rng(sizes.seed)
    kv = sizes.kv_heads * sizes.head_size
    q = sizes.heads * sizes.head_size
    vocab = len(vocabulary())

    def matrix(rows: int, columns: int) -> Floats:
        return (rng.standard_normal((rows, columns)) / np.sqrt(columns)).astype(np.float32)

    def norm() -> Floats:
        return (1 + 0.1 * rng.standard_normal(sizes.hidden)).astype(np.float32)

    found: dict[str, Floats] = {"token_embd.weight": matrix(vocab, sizes.hidden)}
    for i in range(sizes.layers):
        found |= {
            f"blk.{i}.attn_norm.weight": norm(),
            f"blk.{i}.attn_q.weight": matrix(q, sizes.hidden),
            f"blk.{i}.attn_k.weight": matrix(kv, sizes.hidden),
            f"blk.{i}.attn_v.weight": matrix(kv, sizes.hidden),
            f"blk.{i}.attn_output.weight": matrix(sizes.hidden, q),
            f"blk.{i}.ffn_norm.weight": norm(),
            f"blk.{i}.ffn_gate.weight": matrix(sizes.ffn, sizes.hidden),
            f"blk.{i}.ffn_up.weight": matrix(sizes.ffn, sizes.hidden),
            f"blk.{i}.ffn_down.weight": matrix(sizes.hidden, sizes.ffn),
        }
    found["output_norm.weight"] = norm()
    if not sizes.tied:
        found["output.weight"] = matrix(vocab, sizes.hidden)
    return found


def write_gguf(
    path: Path, kind: str = "F32", metadata: dict[str, Any] | None = None, pre: str = "smollm", **sizes: Any
) -> Path:
    """Write a GGUF file; matrices are stored as `kind`, norms as F32.

    Kinds that the gguf package cannot quantise to (Q4_K and the like) get random blocks. `metadata` adds
    integer, float, bool and text entries, or replaces those of the model.
    """
    s = Sizes(**sizes)
    writer = gguf.GGUFWriter(path, "llama")
    fields: dict[str, Any] = {
        "general.name": "tiny",
        "llama.block_count": s.layers,
        "llama.context_length": s.context_length,
        "llama.embedding_length": s.hidden,
        "llama.feed_forward_length": s.ffn,
        "llama.attention.head_count": s.heads,
        "llama.attention.head_count_kv": s.kv_heads,
        "llama.attention.key_length": s.head_size,
        "llama.attention.value_length": s.head_size,
        "llama.rope.dimension_count": s.head_size,
        "llama.rope.freq_base": s.rope_theta,
        "llama.attention.layer_norm_rms_epsilon": s.rms_eps,
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.add_bos_token": False,
        "tokenizer.chat_template": TEMPLATE,
    } | (metadata or {})
    for key, value in fields.items():
        _add_field(writer, key, value)
    tokens = vocabulary()
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(tokens)
    writer.add_token_types([3 if token in SPECIAL else 1 for token in tokens])
    writer.add_token_merges(list(MERGES))
    for name, values in weights(s).items():
        if values.ndim == 1:
            writer.add_tensor(name, values)
        else:
            qtype = gguf.GGMLQuantizationType[kind]
            writer.add_tensor(name, _quantised(values, qtype), raw_dtype=qtype)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _add_field(writer: gguf.GGUFWriter, key: str, value: Any) -> None:
    if isinstance(value, bool):
        writer.add_bool(key, value)
    elif isinstance(value, int):
        writer.add_uint32(key, value)
    elif isinstance(value, float):
        writer.add_float32(key, value)
    else:
        writer.add_string(key, value)


def _quantised(values: Floats, kind: gguf.GGMLQuantizationType) -> npt.NDArray[Any]:
    try:
        return gguf.quants.quantize(values, kind)
    except NotImplementedError:
        block, size = gguf.GGML_QUANT_SIZES[kind]
        rng = np.random.default_rng(values.size)
        blocks = rng.integers(0, 256, (values.shape[0], values.shape[1] // block, size), np.uint8)
        # Half floats at a block's ends are its scales: keep their exponents small.
        blocks[..., [1, 3, -1]] = 0x10
        return blocks.reshape(values.shape[0], -1)


def write_folder(
    path: Path, dtype: str = "F32", shards: int = 1, config: dict[str, Any] | None = None, **sizes: Any
) -> Path:
    """Write a Hugging Face folder with config, safetensors and a byte-level tokenizer.json.

    `dtype` is F32, F16 or BF16; with several `shards` there is an index. `config` replaces entries of
    config.json; an entry of None stays as null.
    """
    s = Sizes(**sizes)
    path.mkdir(parents=True, exist_ok=True)
    _write_json(path / "config.json", _config(s) | (config or {}))
    _write_json(path / "generation_config.json", {"bos_token_id": 1, "eos_token_id": [2]})
    _write_tokenizer(path)
    named = {_folder_name(name): _half_split(name, values, s) for name, values in weights(s).items()}
    groups = [list(named)[i::shards] for i in range(shards)]
    if shards == 1:
        _write_safetensors(path / "model.safetensors", named, dtype)
        return path
    index: dict[str, str] = {}
    for i, names in enumerate(groups):
        file = f"model-{i + 1:05}-of-{shards:05}.safetensors"
        _write_safetensors(path / file, {name: named[name] for name in names}, dtype)
        index |= dict.fromkeys(names, file)
    _write_json(path / "model.safetensors.index.json", {"metadata": {}, "weight_map": index})
    return path


def _config(s: Sizes) -> dict[str, Any]:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": s.hidden,
        "intermediate_size": s.ffn,
        "num_hidden_layers": s.layers,
        "num_attention_heads": s.heads,
        "num_key_value_heads": s.kv_heads,
        "head_dim": s.head_size,
        "vocab_size": len(vocabulary()),
        "max_position_embeddings": s.context_length,
        "rms_norm_eps": s.rms_eps,
        "rope_theta": s.rope_theta,
        "tie_word_embeddings": s.tied,
        "hidden_act": "silu",
        "bos_token_id": 1,
        "eos_token_id": 2,
    }


def _write_tokenizer(path: Path) -> None:
    vocab = {token: i for i, token in enumerate(vocabulary())}
    merges = [(left, right) for left, right in (merge.split(" ") for merge in MERGES)]
    tokenizer = Tokenizer(models.BPE(vocab, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(list(SPECIAL))
    tokenizer.save(str(path / "tokenizer.json"))
    described = {"bos_token": SPECIAL[1], "eos_token": SPECIAL[2], "chat_template": TEMPLATE}
    _write_json(path / "tokenizer_config.json", described)


FOLDER_NAMES = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def _folder_name(name: str) -> str:
    *layer, part, _ = name.split(".")
    prefix = f"model.layers.{layer[1]}." if layer else ""
    return f"{prefix}{FOLDER_NAMES[part]}.weight"


def _half_split(name: str, values: Floats, s: Sizes) -> Floats:
    """Rope pairs of Q and K as Hugging Face has them: a head's first halves, then its second halves."""
    if "attn_q." not in name and "attn_k." not in name:
        return values
    pairs = values.reshape(-1, s.head_size // 2, 2, s.hidden)
    return np.ascontiguousarray(pairs.swapaxes(1, 2)).reshape(values.shape)


def _write_safetensors(path: Path, tensors: dict[str, Floats], dtype: str) -> None:
    save_file({name: _as(values, dtype) for name, values in tensors.items()}, path, {"format": "pt"})


def _as(values: Floats, dtype: str) -> npt.NDArray[Any]:
    if dtype == "F16":
        return values.astype(np.float16)
    if dtype == "BF16":  # cut off rather than rounded
        return (values.view(np.uint32) >> 16).astype(np.uint16).view(ml_dtypes.bfloat16)
    return values


def _write_json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=1), encoding="utf-8")
