"""Whether the server takes more requests now."""

from __future__ import annotations

from starlette.datastructures import State

from twinfer.api.limits import Limits
from twinfer.api.service import Router
from twinfer.errors import OverloadedError, UnavailableError


def check_room(state: State, answers: int = 1) -> None:
    """Refuse `answers` more, unless they can run or wait.

    Raises:
        UnavailableError: the server is starting or stopping.
        OverloadedError: too many wait already.
    """
    router: Router = state.service.router
    limits: Limits = state.limits
    if state.stopping:
        raise UnavailableError("the server is stopping")
    if not router.ready:
        raise UnavailableError("the engines are not ready; ask /ready")
    if router.waiting + answers > limits.max_queue:
        raise OverloadedError(
            f"{router.waiting} answers wait already, and at most {limits.max_queue} may",
            retry_after=router.retry_after,
        )
