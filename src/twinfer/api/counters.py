"""HTTP responses by status, for the metrics."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter
from starlette.types import ASGIApp, Message, Receive, Scope, Send


class Responses:
    """Counts every response, whoever sends it."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._counter = Counter("twinfer_http_responses", "HTTP responses", ["status"], registry=registry)

    def count(self, status: int) -> None:
        """A response with this status goes out."""
        self._counter.labels(str(status)).inc()


class Counting:
    """Counts the responses of an application."""

    def __init__(self, app: ASGIApp, responses: Responses) -> None:
        self.app = app
        self.responses = responses

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                self.responses.count(message["status"])
            await send(message)

        await self.app(scope, receive, counted)
