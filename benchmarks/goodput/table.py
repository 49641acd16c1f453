"""What must be shown: workloads with their targets, the servers measured, and the ratios aimed at."""

from __future__ import annotations

from typing import NamedTuple


class Workload(NamedTuple):
    """A row: what is asked (`twinfer bench`'s options), targets in seconds, ratios aimed at.

    `guess` is a rate in requests a second at which to begin the first search.
    """

    title: str
    load: tuple[str, ...]
    ttft: float
    tpot: float
    over_traditional: float
    over_chunked: float
    guess: float

    @property
    def targets(self) -> list[str]:
        return ["--slo-ttft", f"{self.ttft:g}", "--slo-tpot", f"{self.tpot:g}"]

    @property
    def described(self) -> str:
        return f"TTFT {self.ttft:g} s, TPOT {1000 * self.tpot:g} ms"

    def slower(self, factor: float) -> Workload:
        """The same on a machine so many times as slow: longer targets, and a lower rate to begin with."""
        return self._replace(ttft=self.ttft * factor, tpot=self.tpot * factor, guess=self.guess / factor)


CONVERSATION = ("--trace", "azure-conv", "--length-scale", "0.5")
CONVERSATIONS = "Azure conversation, lengths ÷2"
WORKLOADS = {
    "conv-40": Workload(CONVERSATIONS, CONVERSATION, 3, 0.040, 1.4, 1.1, 6.0),
    "conv-15": Workload(CONVERSATIONS, CONVERSATION, 3, 0.015, 2.0, 1.15, 5.6),
    "conv-10": Workload(CONVERSATIONS, CONVERSATION, 3, 0.010, 3.0, 1.15, 5.0),
    "p1024": Workload(
        "prompts 1,024, answers 64", ("--input", "1024", "--output", "64"), 4, 0.015, 2.5, 1.1, 4.0
    ),
    "p256": Workload(
        "prompts 256, answers 128", ("--input", "256", "--output", "128"), 1, 0.015, 1.3, 1.1, 8.0
    ),
    "p64": Workload("prompts 64, answers 256", ("--input", "64", "--output", "256"), 1, 0.040, 1.0, 1.0, 9.0),
    "mooncake": Workload(
        "Mooncake conversation, lengths ÷8",
        ("--trace", "mooncake", "--length-scale", "0.125"),
        3,
        0.015,
        2.0,
        1.1,
        1.7,
    ),
}
ONE_BY_ONE = "one-by-one"
ONE_BY_ONE_AIM = 1.03
"""Ours over each baseline's total time, at most."""
ITL_WORKLOAD, ITL_AIM = "conv-15", 1.5
"""P99 of the gaps between tokens over the TPOT target, at most."""
RIVAL_WORKLOAD, RIVAL_AIM = "conv-40", 4.0
RIVAL_GUESSES = {"openvino": 1.5, "vllm": 0.6}

DISAGGREGATED, TRADITIONAL = "disaggregated", "traditional"
CHUNKED = tuple(f"chunk-{size}" for size in (16, 32, 64, 128, 256))
