"""A Llama model out of a Hugging Face folder: config.json, safetensors, and its tokeniser's files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np

from twinfer.errors import ModelError
from twinfer.model.checkpoint import Checkpoint, FolderTokenizer, Tensor, check_tensors
from twinfer.model.description import Description, check_sizes
from twinfer.model.folder_config import FolderConfig, frequencies, read_config
from twinfer.model.shards import read_shards

NAMES = {
    "model.embed_tokens.weight": "token_embd.weight",
    "model.norm.weight": "output_norm.weight",
    "lm_head.weight": "output.weight",
}
LAYER_NAMES = {
    "input_layernorm.weight": "attn_norm.weight",
    "self_attn.q_proj.weight": "attn_q.weight",
    "self_attn.k_proj.weight": "attn_k.weight",
    "self_attn.v_proj.weight": "attn_v.weight",
    "self_attn.o_proj.weight": "attn_output.weight",
    "post_attention_layernorm.weight": "ffn_norm.weight",
    "mlp.gate_proj.weight": "ffn_gate.weight",
    "mlp.up_proj.weight": "ffn_up.weight",
    "mlp.down_proj.weight": "ffn_down.weight",
}


Kind = TypeVar("Kind")


class _Generation(msgspec.Struct, frozen=True):
    eos_token_id: int | list[int] | None = None


def load_folder(path: Path) -> Checkpoint:
    """Read a Hugging Face folder; its weights stay on disk until they are used, but for Q and K.

    Raises:
        ModelError: a file is missing or damaged, or the model is not supported.
    """
    config = read_config(path)
    description = _describe(config, path.resolve().name)
    check_sizes(description)
    tensors = _rename(read_shards(path), description)
    check_tensors(description, tensors)
    description = msgspec.structs.replace(description, inv_freq=frequencies(config))
    for i in range(description.layers):
        for name in (f"blk.{i}.attn_q.weight", f"blk.{i}.attn_k.weight"):
            tensors[name] = _interleave(tensors[name], description.head_dim)
    return Checkpoint(description, tensors, _tokenizer(path, config), path)


def _describe(config: FolderConfig, name: str) -> Description:
    return Description(
        name=name,
        layers=config.num_hidden_layers,
        hidden=config.hidden_size,
        heads=config.num_attention_heads,
        kv_heads=config.kv_heads,
        head_dim=config.head_size,
        ffn=config.intermediate_size,
        vocab=config.vocab_size,
        context_length=config.max_position_embeddings,
        rms_eps=config.rms_norm_eps,
        inv_freq=(),
        tied=config.tie_word_embeddings,
    )


def _rename(tensors: Mapping[str, Tensor], description: Description) -> dict[str, Tensor]:
    """Tensors under GGUF's names. Dropped: a copy of tied embeddings, and rope frequencies of old exports."""
    renamed: dict[str, Tensor] = {}
    for old, tensor in tensors.items():
        new = _new_name(old)
        if old.endswith("rotary_emb.inv_freq") or (description.tied and new == "output.weight"):
            continue
        renamed[new] = msgspec.structs.replace(tensor, name=new)
    return renamed


def _new_name(name: str) -> str:
    prefix, _, rest = name.removeprefix("model.layers.").partition(".")
    if name.startswith("model.layers.") and prefix.isdecimal() and rest in LAYER_NAMES:
        return f"blk.{int(prefix)}.{LAYER_NAMES[rest]}"
    return NAMES.get(name, name)


def _interleave(tensor: Tensor, head_dim: int) -> Tensor:
    """Rows of each head from (first halves, second halves) of the rope pairs to pair after pair."""
    row_bytes = tensor.data.shape[1]
    pairs = tensor.data.reshape(-1, 2, head_dim // 2, row_bytes).swapaxes(1, 2)
    return msgspec.structs.replace(tensor, data=np.ascontiguousarray(pairs).reshape(-1, row_bytes))


def _tokenizer(path: Path, config: FolderConfig) -> FolderTokenizer:
    try:
        text = (path / "tokenizer.json").read_text("utf-8")
    except FileNotFoundError:
        raise ModelError("tokenizer.json is missing") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ModelError(f"tokenizer.json cannot be read: {error}") from None
    described = _json(path / "tokenizer_config.json", dict[str, Any]) or {}
    generation = _json(path / "generation_config.json", _Generation) or _Generation()
    ends = generation.eos_token_id if generation.eos_token_id is not None else config.eos_token_id
    named = (ends,) if isinstance(ends, int) else tuple(ends or ())
    return FolderTokenizer(
        tokenizer=text,
        config=described,
        eos_ids=tuple(token for token in named if 0 <= token < config.vocab_size),
        bos_id=config.first_token,
        chat_template=_chat_template(path, described),
    )


def _chat_template(path: Path, described: Mapping[str, Any]) -> str | None:
    """chat_template.jinja, or the template in tokenizer_config.json: a text, or a list of named ones."""
    try:
        return (path / "chat_template.jinja").read_text("utf-8")
    except FileNotFoundError:
        pass
    except (OSError, UnicodeDecodeError) as error:
        raise ModelError(f"chat_template.jinja cannot be read: {error}") from None
    template = described.get("chat_template")
    if isinstance(template, list):
        try:
            named = msgspec.convert(template, list[dict[str, str]])
        except msgspec.ValidationError as error:
            raise ModelError(f"tokenizer_config.json has a damaged chat_template: {error}") from None
        return next((entry.get("template") for entry in named if entry.get("name") == "default"), None)
    return template if isinstance(template, str) else None


def _json(path: Path, kind: type[Kind]) -> Kind | None:
    """A JSON file's content, or None if there is no such file."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ModelError(f"{path.name} cannot be read: {error}") from None
