"""The commands `runs` and `runs prune`: what `holdfast run` left here, and being rid of it.

Must not touch a run that is alive, nor a folder that is no run.
"""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from holdfast.cli import asking, find
from holdfast.cli.errors import Stopped, misused
from holdfast.cli.output import as_json, complain, say, table, toned
from holdfast.cli.shared import Json, examples, group, or_outer
from holdfast.kit.clock import SystemClock
from holdfast.page.words import duration, size
from holdfast.protocol.counts import plural
from holdfast.protocol.paths import RunPaths

KEPT = 20
UNREADABLE = "unreadable"

Folder = Annotated[
    Path | None,
    typer.Option(
        "--runs",
        metavar="DIR",
        help="Where `holdfast run` made their folders. Default: runs",
        callback=or_outer,
    ),
]


class Past(NamedTuple):
    """A run's folder as it lies there; `phase` is "" where its journal has no job."""

    root: Path
    changed_s: float
    size_bytes: int
    alive: bool
    phase: str
    wanted: str

    @property
    def state(self) -> str:
        """For people."""
        if not self.phase:
            return "starting" if self.alive else "never began"
        job = {"phase": self.phase, "wanted": self.wanted}
        return asking.state_of(job, alive=self.alive or self.phase == UNREADABLE)


def register(app: typer.Typer) -> None:
    runs = group(
        "List the runs that `holdfast run` left here, newest first, or remove old ones.",
        shows=_runs,
        epilog=examples("holdfast runs", "holdfast runs prune --keep 5"),
    )
    runs.command(
        "prune",
        epilog=examples("holdfast runs prune --dry-run", "holdfast runs prune --keep 5"),
    )(prune)
    app.add_typer(runs, name="runs")


def _runs(context: typer.Context, folder: Folder = None, json: Json = False) -> None:
    if context.invoked_subcommand is None:
        list_runs(folder, json)


def list_runs(folder: Path | None, json: bool) -> None:
    now_s = SystemClock().wall().timestamp()
    found = [_past(root) for root in _in(folder)]
    if json:
        as_json([{**past._asdict(), "root": str(past.root)} for past in found])
        return
    if not found:
        say(f"no runs in {folder or find.RUNS}")
        return
    rows = (
        (past.root.name, toned(past.state), duration(now_s - past.changed_s), size(past.size_bytes))
        for past in found
    )
    table(("run", "state", "changed", "size"), rows)


def prune(
    keep: Annotated[int, typer.Option(min=0, metavar="N", help="How many of them stay.")] = KEPT,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would be removed.")
    ] = False,
    folder: Folder = None,
    json: Json = False,
) -> None:
    """Remove all runs but the newest, with their logs, journals and checkpoints.

    What runs is left alone.
    """
    removed = [past for past in map(_past, _in(folder)[keep:]) if not past.alive]
    if not dry_run:
        removed = [past for past in removed if _remove(past.root)]
    if json:
        as_json({"removed": [past.root.name for past in removed], "dry_run": dry_run})
        return
    for past in removed:
        say(past.root.name)
    freed = size(sum(past.size_bytes for past in removed))
    would = "would be " if dry_run else ""
    complain(f"{plural(len(removed), 'run')} {would}removed, {freed}")


def _in(folder: Path | None) -> list[Path]:
    """Newest first. Raises `Stopped` (2) where a folder was named that is not there."""
    if folder is not None and not folder.is_dir():
        why = "is no folder" if folder.exists() else "is not there"
        raise misused(f"--runs: {str(folder)!r} {why}.", "Name the folder that holds the runs.")
    return find.runs(folder or find.RUNS)


def _remove(root: Path) -> bool:
    """Whether it is gone; one that came to life meanwhile stays. Raises `Stopped`."""
    with _at_rest(root) as rests:
        if not rests:
            return False
        try:
            shutil.rmtree(root)
        except OSError as error:
            raise Stopped(
                f"cannot remove {error.filename or root}: {error.strerror}.",
                fix="Remove it with the account that ran it.",
            ) from error
    return True


def _past(root: Path) -> Past:
    phase, wanted = _job(root)
    return Past(
        root=root,
        changed_s=RunPaths(root).journal.stat().st_mtime,
        size_bytes=sum(_sizes(root)),
        alive=find.lives(root),
        phase=phase,
        wanted=wanted,
    )


@contextmanager
def _at_rest(root: Path) -> Iterator[bool]:
    """Whether neither its driver nor its keeper runs; meanwhile none of them can start."""
    with ExitStack() as held:
        for name in ("driver.lock", "keeper.lock"):
            if not (root / name).exists():
                continue
            try:
                file = held.enter_context((root / name).open("r+b"))
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:  # held, or another user's
                yield False
                return
        yield True


def _sizes(root: Path) -> Iterator[int]:
    """Octets on disk of everything below; what goes meanwhile counts as nothing."""
    for folder, _, names in os.walk(root):
        for name in names:
            try:
                yield os.lstat(os.path.join(folder, name)).st_blocks * 512
            except FileNotFoundError:
                continue


def _job(root: Path) -> tuple[str, str]:
    """Phase of its job, and what was wanted of that."""
    from holdfast.cli.offline import Recorded

    try:
        jobs = Recorded(root).jobs()
    except Stopped:
        return UNREADABLE, ""
    return (jobs[-1]["phase"], jobs[-1]["wanted"]) if jobs else ("", "")
