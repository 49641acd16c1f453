"""A hub on this machine: as much of Hugging Face's protocol as a download needs."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

SHA = "0123456789abcdef0123456789abcdef01234567"
GATED = "org/gated"

Files = dict[str, bytes]


class Hub(ThreadingHTTPServer):
    """Serves `repos` (file contents by repository and name); `paths` records what was asked for.

    While `broken`, it fails at everything.
    """

    daemon_threads = True

    def __init__(self, repos: dict[str, Files]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.repos = repos
        self.paths: list[str] = []
        self.broken = False

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    errors: ClassVar = {401: "RepoNotFound", 403: "GatedRepo", 404: "EntryNotFound"}
    server: Hub

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = self.path.partition("?")[0].strip("/")
        self.server.paths.append(path)
        parts = path.removeprefix("api/models/").split("/")
        repo, rest = "/".join(parts[:2]), parts[2:]
        files = self.server.repos.get(repo)
        if self.server.broken:
            self._answer(500, b"")
        elif repo == GATED:
            self._answer(403, b"")
        elif files is None:
            self._answer(401, b"")
        elif not path.startswith("api/"):
            self._file(files, "/".join(rest[2:]))
        elif rest[:1] == ["tree"]:
            self._json(
                [{"type": "file", "oid": _oid(c), "size": len(c), "path": n} for n, c in files.items()]
            )
        else:
            self._json({"id": repo, "sha": SHA, "siblings": [{"rfilename": name} for name in files]})

    def _file(self, files: Files, name: str) -> None:
        if name not in files:
            return self._answer(404, b"")
        headers = {"ETag": f'"{_oid(files[name])}"', "X-Repo-Commit": SHA, "Accept-Ranges": "bytes"}
        return self._answer(200, files[name], headers)

    def _json(self, content: object) -> None:
        self._answer(200, json.dumps(content).encode(), {"Content-Type": "application/json"})

    def _answer(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        if status in self.errors:
            self.send_header("X-Error-Code", self.errors[status])
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


def _oid(content: bytes) -> str:
    return hashlib.sha1(content).hexdigest()


@contextmanager
def serve(repos: dict[str, Files]) -> Iterator[Hub]:
    """A running hub."""
    with Hub(repos) as hub:
        thread = threading.Thread(target=hub.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield hub
        finally:
            hub.shutdown()
            thread.join()
