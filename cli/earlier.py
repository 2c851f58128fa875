"""Where checkpoints lie, as people name it: a URL, a folder, a run's name, or `last`.

Called by `checkpoint` and by `run --begin-from`. Must not write anything.
"""

from pathlib import Path

from holdfast.cli import find
from holdfast.cli.errors import Stopped, misused
from holdfast.protocol.paths import RunPaths

LAST = "last"
"""The newest run here."""

HOW = "Give a URL such as file:///data/ckpt, a folder, a run's name, or `last`."


def store_url(name: str, runs: Path = find.RUNS) -> str:
    """The URL that is meant. Raises `Stopped` (2) where nothing of that name is here."""
    if not name:
        raise misused("URL: it is empty.", "Name a store, a folder, a run, or `last`.")
    if "://" in name:
        return name.rstrip("/")
    if name == LAST:
        return _newest(runs)
    try:
        return _named(name, runs)
    except OSError as error:
        raise misused(f"{name!r}: {error.strerror}.", HOW) from error


def _named(name: str, runs: Path) -> str:
    for root in (Path(name), runs / name):
        if RunPaths(root).journal.exists():
            return _of_run(root)
    if Path(name).is_dir():
        return _url(Path(name))
    what = "is no folder" if Path(name).exists() else "is neither a store's URL, nor a folder"
    raise misused(f"{name!r} {what}, nor a run in {runs}.", HOW)


def _newest(runs: Path) -> str:
    """Of the newest run that has saved anything, as far as that can be seen from here."""
    for root in find.runs(runs):
        for url in reversed(_stores(root)):
            if _has_any(url):
                return url
    raise misused(f"no run in {runs} has checkpoints.", "Name the store: a URL, or its folder.")


def _has_any(url: str) -> bool:
    """Whether a checkpoint is there: a run that failed at once leaves a folder without any.

    Of a store that cannot be asked whoever uses the URL says what is wrong with it.
    """
    from holdfast.checkpoint.stores import StoreError
    from holdfast.checkpoint.tools.places import NoCheckpoint, found

    try:
        return bool(found(url))
    except NoCheckpoint:
        return False
    except StoreError:
        return True


def _of_run(root: Path) -> str:
    urls = _stores(root)
    if len(urls) == 1:
        return urls[0]
    if not urls:
        raise Stopped(f"{root} has no job with a store.", fix="Name the store: a URL or a folder.")
    raise misused(f"{root} has checkpoints of several jobs.", f"Name one of {', '.join(urls)}")


def _stores(root: Path) -> list[str]:
    """Where each of its jobs wrote, as its driver wrote it down; the newest last."""
    from holdfast.cli.offline import Recorded

    return [str(job["store_url"]) for job in Recorded(root).jobs() if job["store_url"]]


def _url(folder: Path) -> str:
    return folder.absolute().as_uri()
