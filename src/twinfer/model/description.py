"""What a model is, in numbers: sizes, norm epsilon and rope frequencies. It knows no weights and no file."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from twinfer.errors import ModelError

MAX_HEAD_DIM = 512


class Description(msgspec.Struct, frozen=True):
    """A decoder of the Llama family.

    name            what people call the model
    layers, hidden, heads, kv_heads, head_dim, ffn, vocab   sizes; `vocab` counts rows of the embedding
    context_length  tokens the model was trained for
    rms_eps         added to the mean square in RMSNorm
    inv_freq        head_dim / 2 radians per position, rope scaling already applied; pair i of a head is its
                    elements (2i, 2i + 1)
    tied            the embedding is also the output matrix
    """

    name: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    vocab: int
    context_length: int
    rms_eps: float
    inv_freq: tuple[float, ...]
    tied: bool


def check_sizes(description: Description) -> None:
    """Refuse sizes that no Llama has, before anything is allocated by them.

    Raises:
        ModelError: one of the sizes is out of range or does not fit another.
    """
    for size in ("layers", "hidden", "heads", "kv_heads", "head_dim", "ffn", "vocab", "context_length"):
        if getattr(description, size) < 1:
            raise ModelError(f"{size} must be at least 1, not {getattr(description, size)}")
    if description.heads % description.kv_heads:
        raise ModelError(
            f"{description.heads} query heads cannot share {description.kv_heads} key-value heads evenly"
        )
    if description.head_dim % 2 or description.head_dim > MAX_HEAD_DIM:
        raise ModelError(f"head_dim must be even and at most {MAX_HEAD_DIM}, not {description.head_dim}")
    if not 0 < description.rms_eps < 1:
        raise ModelError(f"the RMSNorm epsilon must be between 0 and 1, not {description.rms_eps}")


def rope_frequencies(
    head_dim: int, base: float, linear_factor: float = 1.0, divisors: Sequence[float] = ()
) -> tuple[float, ...]:
    """head_dim / 2 rope frequencies in radians per position: base^(-2i/head_dim), scaled.

    `linear_factor` divides all of them (positions are interpolated); `divisors` divides each by its own
    (what GGUF stores as rope_freqs).

    Raises:
        ModelError: a number is out of range, or there are not head_dim / 2 divisors.
    """
    half = head_dim // 2
    if divisors and len(divisors) != half:
        raise ModelError(f"{len(divisors)} rope frequency factors do not fit head_dim {head_dim}")
    if not 1 <= base < math.inf:
        raise ModelError(f"the rope frequency base must be at least 1, not {base}")
    if not (linear_factor > 0 and all(divisor > 0 for divisor in divisors)):
        raise ModelError("the rope scaling factors must be over 0")
    scales = divisors or (1.0,) * half
    frequencies = tuple(base ** (-2.0 * i / head_dim) / linear_factor / scales[i] for i in range(half))
    if not all(math.isfinite(frequency) for frequency in frequencies):
        raise ModelError("the rope scaling factors are too small")
    return frequencies


def llama3_divisors(
    head_dim: int, base: float, factor: float, low: float, high: float, original_context: float
) -> tuple[float, ...]:
    """Llama 3.1's rope scaling as head_dim / 2 divisors of the plain frequencies.

    Waves longer than original_context / low are slowed by `factor`, those shorter than
    original_context / high are kept, and those between are blended.

    Raises:
        ModelError: a parameter is out of range.
    """
    if not (factor > 0 and 0 < low < high and original_context > 0):
        raise ModelError("the llama3 rope scaling parameters are out of range")

    def divisor(frequency: float) -> float:
        turns = original_context * frequency / (2 * math.pi)
        keep = min(1.0, max(0.0, (turns - low) / (high - low)))
        return 1.0 / ((1.0 - keep) / factor + keep)

    return tuple(divisor(frequency) for frequency in rope_frequencies(head_dim, base))
