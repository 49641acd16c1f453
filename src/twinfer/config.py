"""What can be set, with its default. The command line, `LLM` and the tests all fill this one struct."""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import Any

import msgspec

from twinfer.errors import ConfigError

PRECISIONS = ("auto", "f32", "bf16", "int8", "int4")
PLACEMENTS = ("auto", "always-disaggregate", "colocate")
KV_DTYPES = ("auto", "f32", "bf16", "int8")
DEFAULT_MODEL = "smollm2"
DEFAULT_POOL_BYTES = 1 << 30
UNITS = {"": 1, "B": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Everything a deployment on one host is made from. `validated` checks it as a whole.

    model                   "smollm2" (also None), a GGUF file, a Hugging Face folder, or a hub name
    placement               where prompts are computed: "auto" is on prefill engines, or on a decode engine
                            where that is sooner and harms no one; "always-disaggregate" is on prefill engines
                            only; "colocate" is on one mixed engine on all cores, instead of the others
    prefill_chunk           prompt tokens an engine computes in one step at most, fewer where slo_ttft is
                            tight; 0 for whole prompts
    prefill_precision, decode_precision   of the weights in that phase
    kv_dtype                of the KV pool
    kv_pool_size            bytes, or None for 1 GiB within the memory bound
    gpu_memory_utilization  share of the free memory that the pool may take
    max_model_len           prompt and answer tokens of one request, or None for what model and pool allow
    max_batch_size          requests in one decode step at most
    prefix_cache            share KV among requests that begin alike, and keep it for later ones; without,
                            only the answers of one call share what their prompts have in common
    slo_ttft                seconds to the first token that requests should keep; those that cannot are
                            refused early
    slo_tpot                mean seconds between tokens that decode should keep; it leaves the rest of its
                            cores to prefill
    check                   verify after every event that no page and no request is lost or held twice
    seed                    of requests that bring none, or None for a fresh one each
    """

    model: str | None = None
    prefill_engines: int = 1
    decode_engines: int = 1
    placement: str = "auto"
    prefill_chunk: int = 512
    prefill_precision: str = "auto"
    decode_precision: str = "auto"
    kv_dtype: str = "auto"
    kv_pool_size: int | None = None
    gpu_memory_utilization: float = 0.9
    max_model_len: int | None = None
    max_batch_size: int = 128
    prefix_cache: bool = True
    slo_ttft: float | None = None
    slo_tpot: float | None = None
    check: bool = False
    tensor_parallel_size: int = 1
    seed: int | None = None

    @classmethod
    def from_options(cls, **options: Any) -> Config:
        """A validated config from keyword options; unknown names, wrong types and ranges are ConfigErrors.

        `colocate=True` is another way to write `placement="colocate"`.
        """
        known = [*cls.__struct_fields__, "colocate"]
        for name in options:
            if name not in known:
                close = get_close_matches(name, known, 1)
                hint = f"; did you mean '{close[0]}'?" if close else ""
                raise ConfigError(f"unknown option '{name}'{hint}")
        if "colocate" in options:
            options["placement"] = _placement(options.pop("colocate"), options.get("placement", "auto"))
        size = options.get("kv_pool_size")
        if isinstance(size, str):
            options["kv_pool_size"] = parse_bytes(size)
        try:
            config = msgspec.convert(options, cls)
        except msgspec.ValidationError as error:
            raise ConfigError(str(error).replace("- at `$.", "for option `")) from None
        return config.validated()

    def validated(self) -> Config:
        """This config, checked.

        Raises:
            ConfigError: an option is out of range or cannot be honoured.
        """
        if self.tensor_parallel_size != 1:
            raise ConfigError(
                f"tensor_parallel_size={self.tensor_parallel_size} is not supported; only 1 is, for now"
            )
        _at_least("prefill_engines", self.prefill_engines, 1)
        _at_least("decode_engines", self.decode_engines, 1)
        _at_least("prefill_chunk", self.prefill_chunk, 0)
        _at_least("max_batch_size", self.max_batch_size, 1)
        if self.max_model_len is not None:
            _at_least("max_model_len", self.max_model_len, 2)
        if self.kv_pool_size is not None:
            _at_least("kv_pool_size", self.kv_pool_size, 1)
        if not 0 < self.gpu_memory_utilization <= 1:
            raise ConfigError(
                f"gpu_memory_utilization must be over 0 and at most 1, not {self.gpu_memory_utilization}"
            )
        for name, value in (("slo_ttft", self.slo_ttft), ("slo_tpot", self.slo_tpot)):
            if value is not None and not 0 < value < 3600:
                raise ConfigError(f"{name} must be over 0 and under 3600 seconds, not {value}")
        _one_of("placement", self.placement, PLACEMENTS)
        _one_of("prefill_precision", self.prefill_precision, PRECISIONS)
        _one_of("decode_precision", self.decode_precision, PRECISIONS)
        _one_of("kv_dtype", self.kv_dtype, KV_DTYPES)
        return self

    @property
    def colocate(self) -> bool:
        """Whether one mixed engine serves both phases."""
        return self.placement == "colocate"


def parse_bytes(text: str) -> int:
    """Bytes from "512MiB", "2G", "1073741824"; units are powers of 1024.

    Raises:
        ConfigError: the text is not a size.
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?\s*", text, re.IGNORECASE)
    if match is None:
        raise ConfigError(f"'{text}' is not a size; write for example 512MiB or 2GiB")
    return int(float(match[1]) * UNITS[match[2].upper()])


def _placement(colocate: Any, placement: Any) -> Any:
    """The placement that `colocate` and `placement` mean together."""
    if not isinstance(colocate, bool):
        raise ConfigError(f"colocate must be True or False, not {colocate!r}")
    if colocate and placement == "always-disaggregate":
        raise ConfigError("colocate and placement=always-disaggregate contradict each other; set one of them")
    return "colocate" if colocate else placement


def _at_least(name: str, value: int, least: int) -> None:
    if value < least:
        raise ConfigError(f"{name} must be at least {least}, not {value}")


def _one_of(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ConfigError(f"{name} must be one of {', '.join(allowed)}, not '{value}'")
