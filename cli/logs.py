"""The command `logs`: what a rank wrote."""

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from holdfast.cli import asking, find
from holdfast.cli.client import path
from holdfast.cli.errors import Stopped
from holdfast.cli.output import as_json, complain
from holdfast.cli.shared import Json, State, Url, examples, text
from holdfast.protocol.counts import plural
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
        str | None,
        typer.Argument(
            metavar="[JOB]", help="Default: the newest.", show_default=False, callback=text
        ),
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
    job = job or asking.job_named(asking.source(url, state)[0], None)["name"]

    def pieces(stream: str, tail: int | None = tail) -> Iterable[bytes]:
        return _pieces(
            find.Target(url=url, state=state, job=job),
            _Wanted(job=job, rank=rank, attempt=attempt, stream=stream, tail=tail, follow=follow),
        )

    shown = _show(pieces("stderr" if stderr else "stdout"), rank, json=json)
    if not (shown or stderr or follow or json) and tail != 0 and any(pieces("stderr", 1)):
        complain(f"rank {rank} of {job} wrote to stderr alone: --stderr shows it")


class _Wanted(NamedTuple):
    """What is asked for."""

    job: str
    rank: int
    attempt: int | None
    stream: str
    tail: int | None
    follow: bool


def _pieces(target: find.Target, wanted: _Wanted) -> Iterable[bytes]:
    """What the rank wrote, from the driver or from what it left here. Raises `Stopped`."""
    job, rank, attempt, stream, tail, follow = wanted
    try:
        where = path("jobs", job, "ranks", rank, "logs")
        return find.client(target).stream(
            where, stream=stream, attempt=attempt, tail=tail, follow=follow
        )
    except Stopped as stopped:  # no driver, or one whose nodes were given back
        root = find.state_folder(target, alive=False)
        if root is None:
            raise
        file = _file(RunPaths(root), job, rank, attempt, stream)
        if file is None:
            raise _no_file(target, root, wanted, stopped) from stopped
        return [_end(file.read_bytes(), tail)]


def _file(paths: RunPaths, job: str, rank: int, attempt: int | None, stream: str) -> Path | None:
    """What the rank wrote, if that was on this machine; of its newest attempt by default."""
    attempt = max(_attempts(paths, job), default=0) if attempt is None else attempt
    file = paths.rank(job, attempt, rank) / f"{stream}.log"
    return file if file.is_file() else None


def _attempts(paths: RunPaths, job: str) -> list[int]:
    """Those that left something here."""
    names = (folder.name.removeprefix("attempt_") for folder in paths.job(job).glob("attempt_*"))
    return sorted(int(name) for name in names if name.isdecimal())


def _no_file(target: find.Target, root: Path, wanted: _Wanted, stopped: Stopped) -> Stopped:
    """Why there is nothing to show: what the driver said, or what its journal knows."""
    if not RunPaths(root).journal.exists():
        return stopped
    asked, alive = asking.source(target.url, target.state, wanted.job)
    found = asking.job_named(asked, wanted.job)
    if alive:
        return stopped
    there, name = _attempts(RunPaths(root), job := found["name"]), f"rank {wanted.rank} of"
    if wanted.attempt is not None and there and wanted.attempt not in there:
        some = f"{there[0]} to {there[-1]}" if len(there) > 1 else f"only {there[0]}"
        why = f"--attempt: {job} left no attempt {wanted.attempt} here."
        return Stopped(why, fix=f"There is {some}.")
    had = plural(found["ranks"], "rank")
    return Stopped(f"{name} {job} left no such {wanted.stream} here.", fix=f"The job had {had}.")


def _end(data: bytes, lines: int | None) -> bytes:
    if lines is None:
        return data
    return b"".join(data.splitlines(keepends=True)[-lines:]) if lines else b""


def _show(pieces: Iterable[bytes], rank: int, *, json: bool) -> bool:
    """Whether there was anything to show."""
    rest, shown = b"", False
    for piece in pieces:
        shown = shown or bool(piece)
        if not json:
            sys.stdout.buffer.write(piece)
            sys.stdout.buffer.flush()
            continue
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            as_json({"rank": rank, "line": line.decode(errors="replace")})
    if rest:
        as_json({"rank": rank, "line": rest.decode(errors="replace")})
    return shown
