"""What a run found: the fields of its table and of its JSON line."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from twinfer.bench.serve import measures
from twinfer.bench.serve.answer import Answer
from twinfer.bench.serve.measures import Percentiles, Slo


class Run(msgspec.Struct, frozen=True):
    """Answers that count, the seconds they took together, and the client's own CPU over that time.

    `began` is when the run did, on the answers' clock.
    """

    answers: list[Answer]
    began: float
    duration: float
    client_cpu: float


class SloReport(msgspec.Struct, frozen=True):
    ttft_s: float | None
    tpot_s: float | None
    attainment: float


class Facts(msgspec.Struct, frozen=True):
    """What was measured, in words."""

    url: str
    model: str
    load: str
    lengths: str
    seed: int
    ignore_eos: bool


class Report(msgspec.Struct, frozen=True):
    """Of the measured requests. Times are in milliseconds but where the name ends in `_s`.

    failed, refused   not completed; refused are those answered with 429, the others are in `errors`
    itl_ms            gaps between the events that brought tokens, of all answers together
    goodput_req_s     requests a second that met the targets in `slo`; all completed ones without any
    client_cpu        seconds of CPU a second that the load generator itself took
    late_ms           how late requests were sent, after they were due
    input_tokens, output_tokens   means; cached_share of the prompt tokens came from the server's cache
    wrong_length      completed answers that are not as long as was asked for
    clipped           requests shortened to the model's context
    """

    completed: int
    failed: int
    duration_s: float
    req_s: float
    out_tok_s: float
    ttft_ms: Percentiles
    tpot_ms: Percentiles
    itl_ms: Percentiles
    e2e_ms: Percentiles
    goodput_req_s: float
    slo: SloReport
    client_cpu: float
    refused: int
    errors: dict[str, int]
    in_tok_s: float
    input_tokens: float
    output_tokens: float
    cached_share: float
    wrong_length: int
    clipped: int
    late_ms: Percentiles
    facts: Facts


def summarise(run: Run, slo: Slo, facts: Facts) -> Report:
    """The report of a run."""
    done = [answer for answer in run.answers if answer.completed]
    counts = measures.counts(run.answers)
    prompt, written = (
        sum(_prompt_tokens(answer) for answer in done),
        sum(answer.tokens for answer in done),
    )
    attained = measures.attainment(run.answers, slo)
    return Report(
        completed=counts.completed,
        failed=counts.failed,
        refused=counts.refused,
        errors=counts.errors,
        duration_s=round(run.duration, 3),
        req_s=_per(len(done), run.duration),
        out_tok_s=_per(written, run.duration),
        in_tok_s=_per(prompt, run.duration),
        ttft_ms=measures.percentiles(answer.ttft for answer in done),
        tpot_ms=measures.percentiles(answer.tpot for answer in done if answer.tpot is not None),
        itl_ms=measures.percentiles(gap for answer in done for gap in answer.itl),
        e2e_ms=measures.percentiles(answer.e2e for answer in done),
        goodput_req_s=round(measures.goodput(run.answers, slo, run.duration), 4),
        slo=SloReport(slo.ttft_s, slo.tpot_s, round(attained, 4)),
        client_cpu=round(run.client_cpu, 4),
        input_tokens=_per(prompt, len(done)),
        output_tokens=_per(written, len(done)),
        cached_share=_per(sum(answer.cached_tokens for answer in done), prompt),
        wrong_length=sum(answer.tokens != answer.job.output for answer in done),
        clipped=sum(answer.job.clipped for answer in run.answers),
        late_ms=measures.percentiles(max(0.0, answer.sent - answer.due) for answer in run.answers),
        facts=facts,
    )


def as_json(report: msgspec.Struct) -> str:
    """A report as one line of JSON."""
    return msgspec.json.encode(report).decode()


def reasons(answers: Sequence[Answer]) -> dict[str, str]:
    """For each kind of failure, what the first server's message of that kind was, where there was one."""
    found: dict[str, str] = {}
    for answer in answers:
        if answer.failure and answer.message:
            found.setdefault(answer.failure, answer.message)
    return found


def _prompt_tokens(answer: Answer) -> int:
    return answer.prompt_tokens or answer.job.input


def _per(amount: float, of: float) -> float:
    return round(amount / of, 4) if of else 0.0
