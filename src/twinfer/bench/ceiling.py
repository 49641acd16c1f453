"""Measuring what cores can do at most."""

from __future__ import annotations

from twinfer._native import measure_ops, measure_read
from twinfer.bench.roofline import Ceiling


def measure_ceiling(cores: list[int], isa: str) -> Ceiling:
    """The peaks of these cores with an instruction set, and what they read from memory; takes a second."""
    return Ceiling(
        int8_gops=round(measure_ops(cores, isa, "int8"), 1),
        bf16_gflops=round(measure_ops(cores, isa, "bf16"), 1),
        f32_gflops=round(measure_ops(cores, isa, "f32"), 1),
        read_gb_s=round(measure_read(cores), 2),
    )
