"""Options that many commands have, once: where the driver is, and JSON instead of words."""

from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli import find
from holdfast.cli.client import Client

Url = Annotated[
    str | None,
    typer.Option("--driver", metavar="URL", help="The driver's address, http://HOST:PORT."),
]
State = Annotated[
    Path | None,
    typer.Option(
        "--state",
        metavar="DIR",
        help="The driver's state folder. Default: $HOLDFAST_STATE, else the newest in ./runs.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for machines.")]


def client(url: str | None, state: Path | None) -> Client:
    return find.client(find.Target(url=url, state=state))


def examples(*lines: str) -> str:
    """The end of a command's help: what one would type. click leaves lines after a `\\b` alone."""
    return "\n".join(["\b", "Examples:", *(f"  $ {line}" for line in lines)])
