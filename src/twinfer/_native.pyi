"""The native module: a thread team, the decoder, and its single kernels for tests.

Arrays must be C-contiguous and of exactly the type that is named; anything else is a ValueError of one line.
S sequences, T tokens (of all sequences together), P pages per page table, V vocabulary.
"""

from __future__ import annotations

from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

def isas() -> list[str]:
    """The instruction sets that this machine can run, best first, of "avx512", "avx2", "generic"."""

def take_turns(seconds: float) -> None:
    """Set how long this thread, and those that it starts from now on, keep a core that others want.

    It is between 0.1 and 100 ms. Linux 6.12; a no-op before.
    """

class Team:
    """Threads that work together: one per core id, the caller being the first.

    Members spin for some 50 microseconds after work, then sleep.
    """

    active: int
    """How many members take part from the next step on, 1 to `size`."""

    present: int
    """How many of these may work now: all but those on cores that are not lent at the moment.

    It is 1 for a while after a member lost its core in the middle of an item.
    """

    @overload
    def __init__(self, cores: list[int]) -> None: ...
    @overload
    def __init__(self, cores: list[int], words: NDArray[np.uint64], lenders: list[int]) -> None:
        """-1 is a thread that is not pinned. The constructing thread is pinned to the first core.

        `lenders[i]` is -1 for a core of our own, else the place in `words`, memory shared with the core's
        owner, of the time until which it is lent: nanoseconds of the monotonic clock, 0 for not at all.

        Raises:
            ValueError: no cores, or a first core that this process cannot run on.
        """
    @property
    def size(self) -> int: ...
    def busy(self) -> NDArray[np.float64]:
        """Seconds of processor time [size] that each member's thread has taken since the team was made.

        To be asked while the constructing thread lives.
        """
    def exercise(self, items: int, rounds: int, seconds: float) -> float:
        """Runs rounds of items that spin for `seconds` each, and returns the seconds of the longest round.

        Raises:
            RuntimeError: an item was not computed exactly once, or the team is computing already.
        """

class Decoder:
    """The decoder over packed weights and a paged KV pool. It keeps nothing of any request.

    A sequence's results depend on its own tokens, positions and pages only, bit for bit: not on the batch,
    its order, the chunking of prompts, or the team's size. They may differ between instruction sets.
    One step at a time: a call while the team computes another's is a RuntimeError.
    """

    def __init__(
        self,
        layout: dict[str, Any],
        weights: NDArray[np.uint8],
        pool: NDArray[np.uint8],
        team: Team,
        isa: str = "",
        kv_dtype: str = "bf16",
        page_tokens: int = 16,
    ) -> None:
        """`layout` is `Plan.layout`; "" is the best isa.

        `weights` and `pool` are flat, begin at multiples of 64 bytes, and stay referenced.

        Raises:
            ValueError: the layout does not fit the weights, or something is not supported.
        """
    @property
    def isa(self) -> str: ...
    def forward(
        self,
        tokens: NDArray[np.int32],
        rows: NDArray[np.int32],
        starts: NDArray[np.int32],
        page_tables: NDArray[np.int32],
        sample: NDArray[np.bool_],
        temperature: NDArray[np.float32],
        top_k: NDArray[np.int32],
        top_p: NDArray[np.float32],
        min_p: NDArray[np.float32],
        seeds: NDArray[np.uint64],
    ) -> NDArray[np.int32]:
        """Computes a packed batch and returns one token per sequence [S], -1 where `sample` is false.

        tokens [T]          the new tokens of all sequences, one after the other
        rows, starts [S]    how many new tokens a sequence has, and the position of the first
        page_tables [S, P]  pages of every sequence from position 0; KV of positions before `starts` is there,
                            KV of the new tokens is written there. Unused entries may hold anything.
        sample, temperature, top_k, top_p, min_p, seeds [S]   temperature 0 is greedy; top_k 0, top_p 1 and
                            min_p 0 are off; the random number depends on the seed and the sampled token's
                            position alone

        Releases the GIL.

        Raises:
            ValueError: shapes or types are wrong, or a token, position or page is out of range.
            RuntimeError: the team is computing already, in another thread.
        """
    def logits(
        self,
        tokens: NDArray[np.int32],
        rows: NDArray[np.int32],
        starts: NDArray[np.int32],
        page_tables: NDArray[np.int32],
    ) -> NDArray[np.float32]:
        """As `forward`, but returns the logits [T, V] of every new token. For tests and likelihoods."""

def matmul(
    isa: str,
    layout: dict[str, Any],
    weights: NDArray[np.uint8],
    x: NDArray[np.float32],
    epilogue: str = "store",
) -> NDArray[np.float32]:
    """x [M, K] times one packed matrix: [M, N].

    `epilogue` "add" adds to ones; "swiglu" takes tiles of 16 columns in pairs, gate then up: [M, N / 2].
    """

def unpack(layout: dict[str, Any], weights: NDArray[np.uint8]) -> NDArray[np.float32]:
    """All rows [N, K] of one packed matrix, as the embedding is read."""

def rms_norm(
    isa: str, x: NDArray[np.float32], weight: NDArray[np.float32], eps: float
) -> NDArray[np.float32]:
    """RMSNorm of the rows of x [M, K]."""

def rope(
    isa: str, x: NDArray[np.float32], cos: NDArray[np.float32], sin: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Rotates the pairs of x [T, heads, D] by angles whose cosines and sines are [T, D / 2]."""

def spread(isa: str, x: NDArray[np.float32]) -> NDArray[np.float32]:
    """Hadamard's transform, of unit length, of each run of x [M, D]; runs have the largest power of two
    that divides D, 64 at most."""

def write_kv(
    isa: str,
    k: NDArray[np.float32],
    v: NDArray[np.float32],
    pool: NDArray[np.uint8],
    pages: NDArray[np.int32],
    start: int,
    kv_dtype: str,
) -> None:
    """Stores k, v [T, kv_heads, D] from position `start` on, in a pool whose pages hold a single layer."""

def attention(
    isa: str,
    q: NDArray[np.float32],
    pool: NDArray[np.uint8],
    pages: NDArray[np.int32],
    start: int,
    kv_heads: int,
    tile: int,
    kv_dtype: str,
    part: int = 0,
) -> NDArray[np.float32]:
    """Causal attention of q [T, heads, D] at positions from `start` on, `tile` queries to a call.

    With `part`, calls are cut into so many blocks of 128 positions each, which are merged afterwards.
    """

def sample(
    isa: str,
    logits: NDArray[np.float32],
    temperature: NDArray[np.float32],
    top_k: NDArray[np.int32],
    top_p: NDArray[np.float32],
    min_p: NDArray[np.float32],
    seeds: NDArray[np.uint64],
    positions: NDArray[np.int32],
) -> NDArray[np.int32]:
    """One token per row of logits [S, V], for the positions [S] of the sampled tokens."""

def uniform(seed: int, position: int) -> float:
    """The random number in [0, 1) of a seed and a position (Philox4x32-10)."""

def measure_ops(cores: list[int], isa: str = "", kind: str = "int8") -> float:
    """Billions of operations a second of these cores together; a product and its addition are two.

    `kind` is "int8" (8-bit dot products), "bf16" or "f32", with the best instruction of `isa` for it. It
    takes a fifth of a second, on threads of its own; -1 is a core that the system picks. Releases the GIL.

    Raises:
        ValueError: no cores, or no such kind or instruction set.
    """

def measure_read(cores: list[int]) -> float:
    """Billions of bytes a second that these cores together read from memory. Releases the GIL."""

def time_product(
    isa: str, layout: dict[str, Any], weights: NDArray[np.uint8], x: NDArray[np.float32], repeats: int = 50
) -> float:
    """Seconds of this thread's processor time that x [M, K] times one packed matrix takes at best."""

def time_attention(
    isa: str,
    pool: NDArray[np.uint8],
    kv_dtype: str,
    heads: int,
    kv_heads: int,
    head_dim: int,
    layers: int,
    answers: int,
    context: int,
    queries: int,
    repeats: int = 50,
) -> float:
    """Seconds of this thread's processor time that attention takes at best, in all layers of all answers.

    Each has `context` tokens, the last `queries` of which attend. Their KV is written into `pool` before.

    Raises:
        ValueError: they do not fit into the pool, or into one call of the kernel.
    """
