"""Converts a GGUF file into a Hugging Face folder in bf16, for rivals that read nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import ml_dtypes
import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file

from benchmarks.rivals.catalog import HOME
from twinfer.model.checkpoint import Checkpoint, GgufTokenizer
from twinfer.model.description import Description
from twinfer.model.load import load
from twinfer.model.pack_matrix import to_bf16
from twinfer.model.tokenizer_gguf import gguf_parts

NAMES = {
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


def folder_of(model: Path) -> Path:
    """The folder of a GGUF file among the rivals' models, converted if it is not there yet."""
    folder = HOME / "models" / model.stem
    if not (folder / "tokenizer.json").exists():
        convert(load(model), folder)
    return folder


def convert(checkpoint: Checkpoint, folder: Path) -> None:
    """Write config.json, model.safetensors and, from a GGUF file, tokenizer.json."""
    folder.mkdir(parents=True, exist_ok=True)
    model = checkpoint.description
    (folder / "config.json").write_text(json.dumps(config(model), indent=1))
    tensors: dict[str, NDArray[ml_dtypes.bfloat16]] = {}
    for name, tensor in checkpoint.tensors.items():
        array = to_bf16(_halves(name, tensor.floats(), model.head_dim))
        shape = array.shape if tensor.shape[0] > 1 else array.shape[1:]
        tensors[_name(name)] = array.view(ml_dtypes.bfloat16).reshape(shape)
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    if isinstance(checkpoint.tokenizer_source, GgufTokenizer):
        gguf_parts(checkpoint.tokenizer_source).encoder.save(str(folder / "tokenizer.json"))
        settings = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": model.context_length}
        (folder / "tokenizer_config.json").write_text(json.dumps(settings))


def config(model: Description) -> dict[str, object]:
    """The model as transformers' LlamaConfig; of scaled rope only the base, which costs the same."""
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "torch_dtype": "bfloat16",
        "hidden_act": "silu",
        "hidden_size": model.hidden,
        "intermediate_size": model.ffn,
        "num_hidden_layers": model.layers,
        "num_attention_heads": model.heads,
        "num_key_value_heads": model.kv_heads,
        "head_dim": model.head_dim,
        "vocab_size": model.vocab,
        "max_position_embeddings": model.context_length,
        "rms_norm_eps": model.rms_eps,
        "rope_theta": model.inv_freq[1] ** (-model.head_dim / 2),
        "tie_word_embeddings": model.tied,
    }


def _name(name: str) -> str:
    *layer, part, _ = name.split(".")
    prefix = f"model.layers.{layer[1]}." if layer else ""
    return f"{prefix}{NAMES[part]}.weight"


def _halves(name: str, values: NDArray[np.float32], head_dim: int) -> NDArray[np.float32]:
    """Rope pairs of query and key in that format's order: all first elements, then all second ones."""
    if "attn_q." not in name and "attn_k." not in name:
        return values
    rows, columns = values.shape
    pairs = values.reshape(rows // head_dim, head_dim // 2, 2, columns)
    return np.ascontiguousarray(pairs.swapaxes(1, 2)).reshape(rows, columns)
