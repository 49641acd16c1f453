"""Twinfer serves large language models with prefill and decode disaggregated.

from twinfer import LLM, SamplingParams
"""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from twinfer.llm import LLM
    from twinfer.outputs import CompletionOutput, RequestOutput
    from twinfer.sampling import SamplingParams

__all__ = ["LLM", "CompletionOutput", "RequestOutput", "SamplingParams", "__version__"]

__version__ = version("twinfer")

HOMES = {
    "LLM": "twinfer.llm",
    "CompletionOutput": "twinfer.outputs",
    "RequestOutput": "twinfer.outputs",
    "SamplingParams": "twinfer.sampling",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for, so that engines do not load what they never use."""
    if name not in HOMES:
        raise AttributeError(f"module 'twinfer' has no attribute '{name}'")
    from importlib import import_module

    return getattr(import_module(HOMES[name]), name)
