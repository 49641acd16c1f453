"""Converts a GGUF file into a Hugging Face folder in bf16, for rivals that read nothing else.

    python benchmarks/rivals/folder.py MODEL FOLDER

The folder has no tokeniser: benchmarks send token ids. It is run with Twinfer's own Python.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from twinfer.model.checkpoint import Checkpoint
from twinfer.model.description import Description
from twinfer.model.load import load
from twinfer.model.pack_matrix import to_bf16
from twinfer.model.resolve import resolve

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


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model")
    parser.add_argument("folder", type=Path)
    args = parser.parse_args()
    convert(load(resolve(args.model, print)), args.folder)


def convert(checkpoint: Checkpoint, folder: Path) -> None:
    """Write config.json and model.safetensors."""
    folder.mkdir(parents=True, exist_ok=True)
    model = checkpoint.description
    (folder / "config.json").write_text(json.dumps(config(model), indent=1))
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    arrays: list[NDArray[np.uint16]] = []
    end = 0
    for name, tensor in checkpoint.tensors.items():
        array = to_bf16(_halves(name, tensor.floats(), model.head_dim))
        shape = array.shape if tensor.shape[0] > 1 else array.shape[1:]
        begin, end = end, end + array.nbytes
        header[_name(name)] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [begin, end]}
        arrays.append(array)
    text = json.dumps(header).encode()
    with (folder / "model.safetensors").open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for array in arrays:
            file.write(array.tobytes())


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


if __name__ == "__main__":
    main()
