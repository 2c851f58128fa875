"""Options that many commands have, once: where the driver is, and JSON instead of words."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from holdfast.cli import find
from holdfast.cli.client import Client
from holdfast.cli.errors import misused


def or_outer(context: typer.Context, parameter: typer.CallbackParam, given: Any) -> Any:
    """What is typed before a command holds for it too, as in `holdfast --state DIR nodes list`."""
    if given or context.parent is None:
        return given
    return context.parent.params.get(parameter.name or "") or given


def text(context: typer.Context, parameter: typer.CallbackParam, given: Any) -> Any:
    """Refuse words that nobody can mean: none at all, or bytes that are no text. The driver's
    answer to those would be another one for each command.
    """
    for word in given if isinstance(given, list) else [given]:
        if word is None:
            continue
        option = parameter.opts[0]
        what = option if option.startswith("-") else str(parameter.metavar).strip("[]")
        if not word:
            raise misused(f"{what}: it is empty.", f"Give one. See: {context.command_path} --help")
        try:
            word.encode()
        except UnicodeEncodeError:
            raise misused(f"{what}: {word!r} is not UTF-8.", "Type it anew.") from None
    return given


Url = Annotated[
    str | None,
    typer.Option(
        "--driver",
        metavar="URL",
        help="The driver's address, http://HOST:PORT, or https:// (see HOLDFAST_CA).",
        callback=or_outer,
    ),
]
State = Annotated[
    Path | None,
    typer.Option(
        "--state",
        metavar="DIR",
        readable=False,  # who reads it says what cannot be read
        help="The driver's state folder. Default: $HOLDFAST_STATE, else the newest in ./runs.",
        callback=or_outer,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for machines.", callback=or_outer)]


def client(url: str | None, state: Path | None, job: str | None = None) -> Client:
    return find.client(find.Target(url=url, state=state, job=job))


def same(url: str | None, state: Path | None) -> str:
    """The end of a command that is to ask where this one asked: what was typed, and no more."""
    typed = (("--driver", url), ("--state", state))
    return "".join(f" {option} {value}" for option, value in typed if value is not None)


def group(
    says: str,
    *,
    shows: Callable[..., None] | None = None,
    epilog: str | None = None,
    parser: type[TyperGroup] = TyperGroup,
) -> typer.Typer:
    """Commands below one word. `shows`: what the word alone does; else its help is printed."""
    made = typer.Typer(
        help=says, epilog=epilog, no_args_is_help=shows is None, rich_markup_mode=None, cls=parser
    )
    if shows is not None:
        made.callback(invoke_without_command=True)(shows)
    return made


def examples(*lines: str) -> str:
    """The end of a command's help: what one would type. click leaves lines after a `\\b` alone."""
    return "\n".join(["\b", "Examples:", *(f"  $ {line}" for line in lines)])
