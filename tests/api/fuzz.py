"""Schemathesis against the served OpenAPI document: `python -m tests.api.fuzz`, with options passed on.

The server is the real one with the fake behind it. A request that the document allows may still be wrong
(a prompt too long for the context, say), so that a valid one being refused is no finding.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile

from twinfer.api.access import access

from .http_fake import FakeService
from .threaded import serving

KEY, TOKEN = "sk-fuzz", "admin-fuzz"


def main() -> int:
    """The exit code of schemathesis."""
    allowed = access(host="127.0.0.1", api_keys=[KEY], admin_token=TOKEN)
    with serving(FakeService(), access=allowed) as url, tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "schemathesis.cli", "run", f"{url}/openapi.json"]
        secrets = ["-H", f"Authorization: Bearer {KEY}", "-H", f"X-Admin-Token: {TOKEN}"]
        options = ["--exclude-checks", "positive_data_acceptance", "--generation-database", "none"]
        arguments = [*command, *secrets, *options, *sys.argv[1:]]
        return subprocess.run(arguments, cwd=folder, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
