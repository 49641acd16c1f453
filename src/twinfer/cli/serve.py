"""`twinfer serve`."""

from __future__ import annotations

from rich.console import Console

from twinfer import serving
from twinfer.api import listen
from twinfer.api.run import run
from twinfer.cli.banner import print_banner
from twinfer.cli.notices import notice
from twinfer.config import Config


def serve(config: Config, host: str, port: int) -> None:
    """Serve until SIGINT or SIGTERM.

    Raises:
        TwinferError: the address cannot be had, or the model or an engine does not start.
    """
    bound = listen.bind(host, port)
    address = listen.url(bound)
    console = Console()
    run(
        lambda: serving.open(config, notice),
        bound,
        lambda service: print_banner(console, service, address),
    )
