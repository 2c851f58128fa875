"""The command `logs`: what a rank wrote."""

import sys
from typing import Annotated

import typer

from holdfast.cli.client import path
from holdfast.cli.output import as_json
from holdfast.cli.shared import Json, State, Url, client, examples


def register(app: typer.Typer) -> None:
    app.command(
        "logs",
        epilog=examples(
            "holdfast logs my-job", "holdfast logs my-job --rank 3 --stderr --tail 50 --follow"
        ),
    )(logs)


def logs(
    job: Annotated[str, typer.Argument(metavar="JOB")],
    rank: Annotated[int, typer.Option("-r", "--rank", min=0, help="Which rank.")] = 0,
    attempt: Annotated[
        int | None, typer.Option(min=0, help="Which attempt. Default: the newest.")
    ] = None,
    stderr: Annotated[bool, typer.Option("--stderr", help="stderr instead of stdout.")] = False,
    tail: Annotated[int | None, typer.Option(min=0, help="Only the last lines.")] = None,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Go on as it grows.")] = False,
    url: Url = None,
    state: State = None,
    json: Json = False,
) -> None:
    """Print a rank's output. With --json: one line of JSON a line."""
    pieces = client(url, state).stream(
        path("jobs", job, "ranks", rank, "logs"),
        stream="stderr" if stderr else "stdout",
        attempt=attempt,
        tail=tail,
        follow=follow,
    )
    rest = b""
    for piece in pieces:
        if not json:
            sys.stdout.buffer.write(piece)
            sys.stdout.buffer.flush()
            continue
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            as_json({"rank": rank, "line": line.decode(errors="replace")})
    if rest:
        as_json({"rank": rank, "line": rest.decode(errors="replace")})
