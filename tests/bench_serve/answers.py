"""Answers as a client would have noted them."""

from __future__ import annotations

from itertools import accumulate

from twinfer.bench.serve.answer import Answer
from twinfer.bench.serve.report import Facts, Run
from twinfer.bench.serve.workload import Job

FACTS = Facts("http://fake", "fake", "2 req/s", "prompts 8, answers 4 tokens", 0, True)


def answered(ttft: float, gaps: list[float], *, sent: float = 0.0, failure: str = "") -> Answer:
    """An answer that ended with its last token."""
    stamps = list(accumulate([sent + ttft, *gaps]))
    return Answer(
        Job(0, sent, 8, len(stamps)),
        sent,
        sent,
        stamps=stamps,
        last=stamps[-1],
        ended=stamps[-1],
        prompt_tokens=8,
        tokens=len(stamps),
        failure=failure,
    )


def run_of(answers: list[Answer], duration: float = 10.0) -> Run:
    return Run(answers, 0.0, duration, 0.01)
