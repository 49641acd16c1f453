"""`twinfer serve`."""

from __future__ import annotations

from rich.console import Console

from twinfer import serving
from twinfer.api import listen
from twinfer.api.access import Access
from twinfer.api.limits import Limits
from twinfer.api.run import run
from twinfer.api.tls import Certificate
from twinfer.cli.banner import print_banner
from twinfer.cli.notices import notice
from twinfer.config import Config


def serve(
    config: Config, host: str, port: int, limits: Limits, access: Access, certificate: Certificate | None
) -> None:
    """Serve until SIGINT or SIGTERM.

    Raises:
        TwinferError: the address cannot be had, or the model or an engine does not start.
    """
    bound = listen.bind(host, port)
    address = listen.url(bound, tls=certificate is not None)
    console = Console()
    run(
        lambda: serving.open(config, notice),
        bound,
        lambda service: _ready(console, service, address),
        limits=limits,
        access=access,
        certificate=certificate,
    )


def _ready(console: Console, service: serving.Serving, address: str) -> None:
    if service.template is not None:
        service.template.start()
    print_banner(console, service, address)
