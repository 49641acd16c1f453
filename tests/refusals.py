"""Whether a call is refused, and with which words."""

from collections.abc import Callable
from typing import Any


def refusal(kind: type[Exception], act: Callable[..., Any], *arguments: Any) -> str | None:
    """The one line that `act` is refused with; None when it is not."""
    try:
        act(*arguments)
    except kind as error:
        message = str(error)
    else:
        return None
    assert message
    assert len(message.splitlines()) == 1, message
    return message
