"""config.json of a Hugging Face folder: what it means for a Llama, and what of it is not supported."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import msgspec

from twinfer.errors import ModelError
from twinfer.model.description import llama3_divisors, rope_frequencies

ARCHITECTURES = ("LlamaForCausalLM", "MistralForCausalLM")
# Settings that change the computation, with the values that leave it a plain Llama.
NEUTRAL: dict[str, tuple[Any, ...]] = {
    "quantization_config": (None,),
    "attention_bias": (None, False),
    "mlp_bias": (None, False),
    "hidden_act": (None, "silu"),
    "partial_rotary_factor": (None, 1, 1.0),
}


class FolderConfig(msgspec.Struct, frozen=True):
    """The part of config.json that describes the computation; defaults are those of transformers' Llama."""

    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    vocab_size: int
    num_key_value_heads: int | None = None
    head_dim: int | None = None
    max_position_embeddings: int = 2048
    rms_norm_eps: float = 1e-6
    tie_word_embeddings: bool = False
    rope_theta: float = 10000.0
    rope_scaling: dict[str, Any] | None = None
    rope_parameters: dict[str, Any] | None = None
    bos_token_id: int | list[int] | None = None
    eos_token_id: int | list[int] | None = None

    @property
    def kv_heads(self) -> int:
        """Key-value heads; as many as query heads where the file does not say."""
        return self.num_attention_heads if self.num_key_value_heads is None else self.num_key_value_heads

    @property
    def head_size(self) -> int:
        """Elements of one head."""
        return self.hidden_size // self.num_attention_heads if self.head_dim is None else self.head_dim

    @property
    def first_token(self) -> int | None:
        """The token before a text, if the file names one."""
        token = self.bos_token_id
        return token if isinstance(token, int) and 0 <= token < self.vocab_size else None


def read_config(folder: Path) -> FolderConfig:
    """config.json, checked for everything that makes it more than a plain Llama.

    Raises:
        ModelError: the file is missing or damaged, or describes a model that is not supported.
    """
    try:
        text = (folder / "config.json").read_bytes()
    except OSError:
        raise ModelError("config.json is missing; a Hugging Face folder or a GGUF file is needed") from None
    try:
        raw = msgspec.json.decode(text, type=dict[str, Any])
        _check_supported(raw)
        config = msgspec.convert(raw, FolderConfig)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ModelError(f"config.json is damaged: {error}") from None
    if config.num_attention_heads < 1:
        raise ModelError(f"num_attention_heads must be at least 1, not {config.num_attention_heads}")
    return config


def _check_supported(raw: Mapping[str, Any]) -> None:
    named = raw.get("architectures")
    architectures = cast("list[Any]", named) if isinstance(named, list) else [named]
    if len(architectures) != 1 or architectures[0] not in ARCHITECTURES:
        what = ", ".join(map(str, architectures))
        raise ModelError(f"architecture '{what}' is not supported; supported: {', '.join(ARCHITECTURES)}")
    for key, neutral in NEUTRAL.items():
        if raw.get(key) not in neutral:
            value = str(raw[key])
            short = value if len(value) < 60 else value[:57] + "..."
            raise ModelError(f"{key} = {short} is not supported; supported: models without it")
    if architectures[0] == "MistralForCausalLM" and raw.get("sliding_window", 4096) is not None:
        raise ModelError("a sliding window is not supported; supported: full attention (sliding_window null)")


def frequencies(config: FolderConfig) -> tuple[float, ...]:
    """Rope frequencies in radians per position, head_size / 2 of them.

    Raises:
        ModelError: the rope scaling is not supported or its numbers are out of range.
    """
    # Newer folders put the base and the scaling together under rope_parameters.
    scaling = config.rope_parameters or config.rope_scaling or {}
    kind = scaling.get("rope_type", scaling.get("type", "default"))
    base = _number(scaling, "rope_theta", config.rope_theta)
    if kind in ("default", "none", None):
        return rope_frequencies(config.head_size, base)
    if kind == "linear":
        return rope_frequencies(config.head_size, base, linear_factor=_number(scaling, "factor"))
    if kind == "llama3":
        divisors = llama3_divisors(
            config.head_size,
            base,
            factor=_number(scaling, "factor"),
            low=_number(scaling, "low_freq_factor"),
            high=_number(scaling, "high_freq_factor"),
            original_context=_number(scaling, "original_max_position_embeddings"),
        )
        return rope_frequencies(config.head_size, base, divisors=divisors)
    raise ModelError(f"rope scaling '{kind}' is not supported; supported: default, linear, llama3")


def _number(scaling: Mapping[str, Any], key: str, default: float | None = None) -> float:
    value = scaling.get(key, default)
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise ModelError(f"the rope scaling needs a number '{key}', not {value!r}")
    try:
        return float(value)
    except OverflowError:
        raise ModelError(f"the rope scaling's '{key}' is out of range") from None
