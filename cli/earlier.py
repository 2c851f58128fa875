"""Where checkpoints lie, as people name it: a URL, a folder, a run's name, or `last`.

Called by `checkpoint` and by `run --begin-from`. Must not read a store.
"""

from pathlib import Path

from holdfast.cli import find
from holdfast.cli.errors import Stopped, misused
from holdfast.protocol.paths import RunPaths

LAST = "last"
"""The newest run here."""


def store_url(name: str, runs: Path = find.RUNS) -> str:
    """The URL that is meant. Raises `Stopped` (2) where nothing of that name is here."""
    if not name:
        raise misused("URL: it is empty.", "Name a store, a folder, a run, or `last`.")
    if "://" in name:
        return name.rstrip("/")
    if name == LAST:
        return _of_run(_newest(runs))
    for root in (Path(name), runs / name):
        if RunPaths(root).journal.exists():
            return _of_run(root)
    if Path(name).is_dir():
        return _url(Path(name))
    what = "is no folder" if Path(name).exists() else "is neither a store's URL, nor a folder"
    raise misused(
        f"{name!r} {what}, nor a run in {runs}.",
        "Give a URL such as file:///data/ckpt, a folder, a run's name, or `last`.",
    )


def _newest(runs: Path) -> Path:
    """Of the runs that have saved anything in the store."""
    found = [root for root in find.runs(runs) if _folders(root)]
    if not found:
        raise misused(f"no run in {runs} has checkpoints.", "Name the store: a URL, or its folder.")
    return found[0]


def _of_run(root: Path) -> str:
    folders = _folders(root)
    if len(folders) == 1:
        return _url(folders[0])
    if not folders:
        raise Stopped(
            f"{root} has no checkpoints beside its logs.",
            fix="Name its store: `holdfast status --json` has it, store_url.",
        )
    listed = ", ".join(str(folder) for folder in folders)
    raise misused(f"{root} has checkpoints of several jobs.", f"Name one of {listed}")


def _folders(root: Path) -> list[Path]:
    """Where jobs without a `storeUrl` of their own write, as the driver decides it."""
    return sorted(RunPaths(root).jobs.glob("*/checkpoints"))


def _url(folder: Path) -> str:
    return folder.absolute().as_uri()
