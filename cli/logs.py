"""The command `logs`: what a rank wrote."""

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli import asking, find
from holdfast.cli.client import path
from holdfast.cli.errors import Stopped
from holdfast.cli.output import as_json
from holdfast.cli.shared import Json, State, Url, client, examples
from holdfast.cli.words import plural
from holdfast.protocol import exitcodes
from holdfast.protocol.paths import RunPaths


def register(app: typer.Typer) -> None:
    app.command(
        "logs",
        epilog=examples(
            "holdfast logs", "holdfast logs my-job --rank 3 --stderr --tail 50 --follow"
        ),
    )(logs)


def logs(
    job: Annotated[
        str | None, typer.Argument(metavar="[JOB]", help="Default: the newest.", show_default=False)
    ] = None,
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
    stream = "stderr" if stderr else "stdout"
    job = job or asking.job_named(asking.source(url, state)[0], None)["name"]
    try:
        where = path("jobs", job, "ranks", rank, "logs")
        pieces: Iterable[bytes] = client(url, state).stream(
            where, stream=stream, attempt=attempt, tail=tail, follow=follow
        )
    except Stopped as stopped:  # no driver, or one whose nodes were given back
        root = find.state_folder(find.Target(url=url, state=state), alive=False)
        if root is None:
            raise
        file = _file(RunPaths(root), job, rank, attempt, stream)
        if file is None:
            raise _no_file(root, job, rank, stream, stopped) from stopped
        pieces = [_end(file.read_bytes(), tail)]
    _show(pieces, rank, json=json)


def _file(paths: RunPaths, job: str, rank: int, attempt: int | None, stream: str) -> Path | None:
    """What the rank wrote, if that was on this machine; of its newest attempt by default."""
    if attempt is None:
        folders = paths.job(job).glob("attempt_*")
        numbers = [int(folder.name.removeprefix("attempt_")) for folder in folders]
        attempt = max(numbers, default=0)
    file = paths.rank(job, attempt, rank) / f"{stream}.log"
    return file if file.is_file() else None


def _no_file(root: Path, job: str, rank: int, stream: str, stopped: Stopped) -> Stopped:
    """Why there is nothing to show: what the driver said, or what its journal knows."""
    if stopped.code != exitcodes.UNAVAILABLE or not RunPaths(root).journal.exists():
        return stopped
    from holdfast.cli.offline import Recorded

    found = asking.job_named(Recorded(root), job)
    had = plural(found["ranks"], "rank")
    return Stopped(f"rank {rank} of {job} left no such {stream} here.", fix=f"The job had {had}.")


def _end(data: bytes, lines: int | None) -> bytes:
    if lines is None:
        return data
    return b"".join(data.splitlines(keepends=True)[-lines:]) if lines else b""


def _show(pieces: Iterable[bytes], rank: int, *, json: bool) -> None:
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
