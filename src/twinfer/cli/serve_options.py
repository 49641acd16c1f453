"""The options of `twinfer serve` about who may ask and how much, and what they become."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from twinfer.api.access import Access, access
from twinfer.api.limits import Limits
from twinfer.config import parse_bytes

ACCESS = "Access"
LIMITS = "Limits"

ApiKey = Annotated[
    list[str] | None,
    typer.Option(
        help="A key that clients must send; may be repeated.",
        envvar="TWINFER_API_KEY",
        show_default="none is asked for",
        rich_help_panel=ACCESS,
    ),
]
ApiKeyFile = Annotated[
    Path | None, typer.Option(help="A file of keys, the SHA-256 of one in a line.", rich_help_panel=ACCESS)
]
AdminToken = Annotated[
    str | None,
    typer.Option(
        help="Switches on the routes that drain engines and change their roles, for who sends it.",
        envvar="TWINFER_ADMIN_TOKEN",
        rich_help_panel=ACCESS,
    ),
]
AllowedHost = Annotated[
    list[str] | None,
    typer.Option(
        help="A name that the server answers to besides localhost, --host and addresses; may be repeated, "
        "* is any.",
        rich_help_panel=ACCESS,
    ),
]
CorsOrigin = Annotated[
    list[str] | None,
    typer.Option(
        help="An origin whose web pages may call the server; may be repeated, * is any.",
        rich_help_panel=ACCESS,
    ),
]
SslCertfile = Annotated[
    Path | None, typer.Option(help="Certificate and chain in PEM; switches on TLS.", rich_help_panel=ACCESS)
]
SslKeyfile = Annotated[Path | None, typer.Option(help="Its private key.", rich_help_panel=ACCESS)]
MaxQueue = Annotated[
    int, typer.Option(help="Answers that may wait; beyond them clients get 429.", rich_help_panel=LIMITS)
]
MaxStreams = Annotated[
    int,
    typer.Option(help="Requests of one key, or one address without keys, at a time.", rich_help_panel=LIMITS),
]
MaxConnections = Annotated[int, typer.Option(help="Connections at a time.", rich_help_panel=LIMITS)]
MaxBodySize = Annotated[str, typer.Option(help="Of a request's body.", rich_help_panel=LIMITS)]
MaxHeaderSize = Annotated[str, typer.Option(help="Of a request's head.", rich_help_panel=LIMITS)]
MaxAnswerTokens = Annotated[
    int | None,
    typer.Option(
        help="Largest max_tokens of a request.", show_default="what the context holds", rich_help_panel=LIMITS
    ),
]
MaxChoices = Annotated[int, typer.Option(help="Largest n of a request.", rich_help_panel=LIMITS)]
MaxStopStrings = Annotated[int, typer.Option(help="Stop strings of a request.", rich_help_panel=LIMITS)]
RequestTimeout = Annotated[
    float, typer.Option(help="Seconds until an answer is ended; 0 for never.", rich_help_panel=LIMITS)
]
ReadTimeout = Annotated[
    float,
    typer.Option(
        help="Seconds for a request's head, and again for its body, to come.", rich_help_panel=LIMITS
    ),
]
SendTimeout = Annotated[
    float,
    typer.Option(help="Seconds that a client may leave what it is sent unread.", rich_help_panel=LIMITS),
]
ShutdownTimeout = Annotated[
    float,
    typer.Option(help="Seconds for running answers to end when the server stops.", rich_help_panel=LIMITS),
]


def limits_from(arguments: dict[str, Any]) -> Limits:
    """A command's arguments as limits.

    Raises:
        ConfigError: one is out of range.
    """
    given: dict[str, Any] = {name: arguments[name] for name in Limits.__struct_fields__}
    for name in ("max_body_size", "max_header_size"):
        given[name] = parse_bytes(given[name])
    given["request_timeout"] = given["request_timeout"] or None
    return Limits(**given).validated()


def access_from(arguments: dict[str, Any]) -> Access:
    """A command's arguments as the access they allow.

    Raises:
        ConfigError: one cannot be honoured.
    """
    return access(
        host=arguments["host"],
        api_keys=arguments["api_key"] or (),
        api_key_file=arguments["api_key_file"],
        admin_token=arguments["admin_token"],
        allowed_hosts=arguments["allowed_host"] or (),
        cors_origins=arguments["cors_origin"] or (),
    )
