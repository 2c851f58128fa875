"""The command `warm`: a process that has imported torch before a run needs it.

Thin: every `holdfast` loads it. What it does is in `cli.warming`.
"""

from typing import Annotated

import typer

from holdfast.cli.errors import misused
from holdfast.cli.shared import Json, examples


def register(app: typer.Typer) -> None:
    app.command(
        "warm",
        epilog=examples(
            "holdfast warm -n 4",
            "holdfast warm -n 4 train.py --idle 28800",
            "holdfast warm --status",
            "holdfast warm --stop",
        ),
    )(warm)


def warm(
    script: Annotated[
        str, typer.Argument(metavar="[SCRIPT]", help="Import what this one imports, too.")
    ] = "",
    ranks: Annotated[
        str, typer.Option("-n", "--ranks", metavar="N", help="Ranks a node, as in the run to come.")
    ] = "",
    idle_s: Annotated[
        float,
        typer.Option(
            "--idle",
            metavar="SECONDS",
            min=1,
            max=604_800,
            help="Ends by itself after so long without a run.",
        ),
    ] = 3_600.0,
    status: Annotated[
        bool, typer.Option("--status", help="What it is, and whom it refused.")
    ] = False,
    stop: Annotated[
        bool, typer.Option("--stop", help="End it. Runs that began from it go on.")
    ] = False,
    json: Json = False,
) -> int:
    """Import torch now, in the background, so that the next runs here begin in a second.

    One process for this user, of some hundred MB, that every `holdfast run` on this machine forks
    its ranks from, as long as it is what the run would have started: the same Python, files of
    packages, environment as far as an import reads it, limits, control group. Else the run starts
    its own, and `--status` says why.
    """
    if status and stop:
        raise misused("--status and --stop exclude each other.", "Leave out one of them.")
    from holdfast.cli import warming

    if stop:
        return warming.stop(json=json)
    if status:
        return warming.status(json=json)
    return warming.start(script, ranks, idle_s, json=json)
