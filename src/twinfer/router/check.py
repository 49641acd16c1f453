"""What must hold of the core's state between any two events: no page and no request is lost or held twice.

Slow, since it looks at everything: on in tests, and by `--check`.
"""

from __future__ import annotations

from collections.abc import Iterator

from twinfer.policy.pages import pages_for
from twinfer.router.core import Core
from twinfer.router.engines import EngineView
from twinfer.router.request import Departure, Request, State

HELD = (State.PREFILLING, State.DECODING, State.LEAVING)


def check(core: Core) -> None:
    """Verify the state as a whole.

    Raises:
        AssertionError: it is broken; the message says how.
    """
    core.memory.ledger.check()
    _check_queue(core)
    _check_views(core)
    _check_leases(core)
    _check_shares(core)
    for request in core.requests.values():
        _check_request(request)
    for number, request in core.memory.starved.items():
        _hold(request.id == number and core.requests.get(number) is request, f"{number} starves unknown")
        _hold(request.state is State.DECODING, f"request {number} starves in {request.state.name}")


def _check_queue(core: Core) -> None:
    queued = [request.id for request in core.queue]
    waiting = [request.id for request in core.requests.values() if request.state is State.QUEUED]
    _hold(sorted(queued) == sorted(waiting), f"in the queue are {queued}, but QUEUED are {waiting}")


def _check_views(core: Core) -> None:
    """Each request with an engine is in one view, in one phase, and its state says the same."""
    seen: set[int] = set()
    for view, request, states in _placed(core):
        _hold(core.requests.get(request.id) is request, f"{view.id} holds unknown request {request.id}")
        _hold(request.id not in seen, f"request {request.id} is held twice")
        _hold(request.engine == view.id, f"{view.id} holds request {request.id} of {request.engine}")
        _hold(request.state in states, f"{view.id} holds request {request.id} in {request.state.name}")
        seen.add(request.id)
    running = {request.id for request in core.requests.values() if request.state in HELD}
    _hold(seen == running, f"engines hold {sorted(seen)}, but running are {sorted(running)}")


def _placed(core: Core) -> Iterator[tuple[EngineView, Request, tuple[State, State]]]:
    """Every request that a view holds, with the states it may be in."""
    for name, view in core.engines.items():
        _hold(view.id == name, f"engine {view.id} is known as {name}")
        for number, request in [*view.prefilling.items(), *view.decoding.items()]:
            _hold(request.id == number, f"request {request.id} is held as {number}")
        yield from (
            (view, request, (State.PREFILLING, State.LEAVING)) for request in view.prefilling.values()
        )
        yield from ((view, request, (State.DECODING, State.LEAVING)) for request in view.decoding.values())


def _check_leases(core: Core) -> None:
    """Leases are those of requests that run or wait with their pages, and are as long as their KV."""
    memory = core.memory
    strangers = memory.ledger.lessees - core.requests.keys()
    _hold(not strangers, f"requests {sorted(strangers)} hold pages but are gone")
    for request in core.requests.values():
        pages = memory.ledger.held(request.id)
        least = pages_for(request.computed, memory.page_tokens)
        most = pages_for(request.max_length, memory.page_tokens)
        _hold(least <= pages <= most, f"request {request.id} holds {pages} pages, not {least} to {most}")
        _hold(pages > 0 or request.state is State.QUEUED, f"request {request.id} runs without pages")


def _check_shares(core: Core) -> None:
    """A page in several leases is full, and means the same tokens at the same place for all."""
    size = core.memory.page_tokens
    meaning: dict[int, tuple[int, str, list[int]]] = {}
    shared = core.memory.ledger.shared
    for request in core.requests.values() if shared else ():
        for place, page in enumerate(core.memory.ledger.lease(request.id)):
            if page not in shared:
                continue
            end = (place + 1) * size
            _hold(request.computed >= end, f"request {request.id} shares page {page}, which is not full")
            said = (place, request.generation.cache_salt, request.tokens[place * size : end])
            _hold(
                meaning.setdefault(page, said) == said, f"page {page} means different things to its holders"
            )


def _check_request(request: Request) -> None:
    tokens = len(request.tokens)
    _hold(0 <= request.computed <= tokens, f"request {request.id} has KV of tokens that are not there")
    _hold(tokens < request.max_length or request.finish_reason is not None, f"{request.id} is too long")
    leaving = request.state is State.LEAVING
    _hold(leaving == (request.departure is not None), f"request {request.id} leaves without a reason")
    ending = leaving and request.departure is Departure.END
    _hold(ending == (request.finish_reason is not None), f"request {request.id} is finished but goes on")
    placed = request.state in HELD
    _hold(placed == (request.engine is not None), f"request {request.id} and its engine disagree")
    _hold(request.state is not State.DONE, f"request {request.id} is done but still here")


def _hold(condition: bool, message: str) -> None:
    if not condition:
        raise AssertionError(message)
