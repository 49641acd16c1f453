"""Whether what an engine says can be true, given what the router knows of it.

Engines are trusted with the weights and the pool, not with the router's state: a message that no sound
engine could have sent means that its process is broken, and nothing it says is used any more.
"""

from __future__ import annotations

from typing import NoReturn

from twinfer.errors import BadMessageError
from twinfer.messages import Finish, Hello, Released, Stale, Step, Usage
from twinfer.router.engines import EngineView
from twinfer.router.request import Request, State

MOST_STEPS = 1 << 53


def check_hello(message: Hello, pid: int) -> None:
    """A process introduces itself by its own number.

    Raises:
        BadMessageError: it does not.
    """
    if message.pid != pid:
        _refuse(f"process {pid} calls itself {message.pid}")


def check_step(step: Step, view: EngineView, vocab: int, now: float) -> None:
    """A step names requests that the engine holds, tokens that exist, and progress that is possible.

    Raises:
        BadMessageError: it does not.
    """
    _check_tokens(step, view, vocab)
    _check_chunks(step, view)
    if not 0 <= step.began <= step.ended <= now:
        _refuse(f"a step lasted from {step.began} to {step.ended}, and now is {now}")
    prefilling = sum(len(request.tokens) for request in view.prefilling.values())
    if not (0 <= step.prompt_tokens <= prefilling and 0 <= step.batch <= len(view.decoding)):
        _refuse(f"a step of {step.prompt_tokens} prompt tokens and {step.batch} answers was not asked for")
    context = sum(request.max_length for request in view.decoding.values())
    if not 0 <= step.context <= context:
        _refuse(f"answers read {step.context} tokens of context, and there can be {context}")


def check_usage(usage: Usage, view: EngineView, now: float) -> None:
    """Usage is of the engine's cores, counts up, and no more than the clock has seen.

    Raises:
        BadMessageError: it is not.
    """
    if len(usage.cores) != len(view.cores):
        _refuse(f"usage of {len(usage.cores)} cores, not of {len(view.cores)}")
    before = view.usage or Usage([0.0] * len(view.cores), 0, 0.0, 0.0, 0.0)
    for old, new in zip(_counts(before), _counts(usage), strict=True):
        if not old <= new <= now:
            _refuse(f"a usage of {new} s, which was {old} s before, and now is {now}")
    if not before.paced_steps <= usage.paced_steps < MOST_STEPS:
        _refuse(f"{usage.paced_steps} steps of which more were reported before")


def _counts(usage: Usage) -> list[float]:
    return [*usage.cores, usage.paced_seconds, usage.late_seconds, usage.latest]


def check_stale(message: Stale, view: EngineView) -> None:
    """Stale pages are those of requests that the engine holds.

    Raises:
        BadMessageError: they are not.
    """
    numbers = message.requests
    if not numbers or len(set(numbers)) != len(numbers):
        _refuse("stale pages of no request, or of one twice")
    for number in numbers:
        if view.get(number) is None:
            _refuse(f"stale pages of request {number}, which the engine does not hold")


def check_released(message: Released, view: EngineView, request: Request | None, latest: int) -> None:
    """A release answers a Cancel; its request may have ended or gone elsewhere in the meantime.

    `request` is the one it names, if it still runs; `latest` is the newest request's number.

    Raises:
        BadMessageError: nobody can have asked for this.
    """
    if not 0 < message.request <= latest or message.placement < 1:
        _refuse(f"request {message.request} was never placed for the {message.placement}. time")
    if request is None or message.placement < request.placement or request.state is State.QUEUED:
        return
    if message.placement > request.placement or request.engine != view.id:
        _refuse(f"request {message.request} was not placed here for the {message.placement}. time")
    if request.state is not State.LEAVING:
        _refuse(f"request {message.request} was not to be released")


def _check_tokens(step: Step, view: EngineView, vocab: int) -> None:
    numbers, tokens = step.requests, step.tokens
    if not len(numbers) == len(tokens) == len(step.finishes):
        _refuse(f"{len(numbers)} requests, {len(tokens)} tokens and {len(step.finishes)} finishes in a step")
    if not numbers:
        return
    if len(set(numbers)) != len(numbers):
        _refuse("a request twice in a step")
    if min(tokens) < 0 or max(tokens) >= vocab:
        _refuse(f"a token outside the vocabulary of {vocab}")
    prefilling, decoding = view.prefilling, view.decoding
    for number in numbers:
        request = decoding.get(number) or prefilling.get(number)
        if request is None:
            _refuse(f"a token for request {number}, which the engine does not hold")
        if len(request.tokens) >= request.max_length:
            _refuse(f"a token for request {number} past its longest length")
    if any(step.finishes):
        for number, token, finish in zip(numbers, tokens, step.finishes, strict=True):
            _check_finish(decoding.get(number) or prefilling[number], token, finish)


def _check_finish(request: Request, token: int, finish: int) -> None:
    stops = token in request.generation.stop_tokens
    # Of one that has been cancelled no more tokens were counted, until its engine lets it go.
    full = len(request.tokens) + 1 >= request.max_length or request.finish_reason is not None
    if finish == Finish.NONE or (finish == Finish.STOP and stops) or (finish == Finish.LENGTH and full):
        return
    _refuse(f"request {request.id} finished with reason {finish}, which does not hold")


def _check_chunks(step: Step, view: EngineView) -> None:
    seen = set(step.requests) if step.chunks else set[int]()
    for number, computed in step.chunks:
        request = view.prefilling.get(number)
        if request is None or number in seen:
            _refuse(f"a chunk of request {number}, of which the engine computes no prompt, or two at once")
        if not request.computed < computed < len(request.tokens):
            _refuse(f"request {number} went from {request.computed} to {computed} of {len(request.tokens)}")
        seen.add(number)


def _refuse(reason: str) -> NoReturn:
    raise BadMessageError(f"bad message: {reason}")
