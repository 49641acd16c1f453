"""What every answer of the server must look like."""

from __future__ import annotations

from typing import Any

import httpx

ROUTES = ["/v1/completions", "/v1/chat/completions", "/tokenize", "/detokenize"]
"""Those that take a body from anybody."""


def error_of(response: httpx.Response, status: int) -> dict[str, Any]:
    """The error of a refusal with this status, which must be one line in OpenAI's shape."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/json"
    error = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["message"]
    assert "\n" not in error["message"]
    return error


def check_reply(response: httpx.Response) -> None:
    """An answer that has its end, or a refusal; never a failure of the server."""
    assert response.status_code in (200, 400, 404)
    if response.status_code != 200:
        error_of(response, response.status_code)
    elif response.headers["content-type"].startswith("text/event-stream"):
        assert response.text.endswith("data: [DONE]\n\n")
