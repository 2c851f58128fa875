"""What the commands about checkpoints share: which one is meant, what fails, how far they are."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli.errors import Stopped, misused
from holdfast.cli.shared import text

if TYPE_CHECKING:
    from holdfast.checkpoint.manifest import Manifest
    from holdfast.checkpoint.tools.places import Place

Where = Annotated[
    str,
    typer.Argument(
        metavar="URL",
        help="A store, a life or a checkpoint in it; a folder; a run's name; or `last`.",
        callback=text,
    ),
]


@contextmanager
def told() -> Iterator[None]:
    """What the store or a file says ends the command with a sentence."""
    from holdfast.checkpoint.fetch import Refused
    from holdfast.checkpoint.stores import StoreError
    from holdfast.checkpoint.stores.trial import told_once
    from holdfast.checkpoint.tools.places import NoCheckpoint

    try:
        yield
    except NoCheckpoint as error:
        raise Stopped(str(error), fix=error.fix) from error
    except ImportError as error:
        raise Stopped(
            f"{error.name or 'a library'} is not installed here.",
            fix="Install what training needs: pip install 'holdfast[train]'",
        ) from error
    except (StoreError, Refused) as error:
        raise Stopped(told_once(error).rstrip(".") + ".") from error


def newest_whole(url: str) -> "Place":
    """The checkpoint that is meant: the one that was named, else the newest whole one.

    Lives cannot be compared with each other; the URL's own come before those of lives below it.
    """
    from holdfast.checkpoint.tools.listing import Status, listed
    from holdfast.checkpoint.tools.places import found

    places = found(url)
    if url.endswith(places[0].folder):
        return places[0]
    places = [place for place in places if not place.life.name] or places
    if len({place.life.url for place in places}) > 1:
        lives = ", ".join(dict.fromkeys(place.life.url for place in places))
        raise misused(f"{url} has several lives.", f"Name one of {lives}")
    looked = [listed(place) for place in places]
    for each in looked:
        if each.status == Status.UNREADABLE:  # it may be whole: an older one is not what is meant
            raise Stopped(f"{each.place.folder}: {each.why}".rstrip(".") + ".")
        if each.status == Status.WHOLE:
            return each.place
    raise Stopped(
        f"{url} has no whole checkpoint: {places[0].folder} is {looked[0].status}: {looked[0].why}."
    )


def manifest_of(place: "Place") -> "Manifest":
    from holdfast.checkpoint.fetch import read_manifest
    from holdfast.checkpoint.tools.places import store_of

    return read_manifest(store_of(place), place.folder)


@contextmanager
def progress(doing: str, all_bytes: int) -> Iterator[Any]:
    """A bar on stderr, where somebody looks; gives what is to be told of bytes."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    out = Console(stderr=True)
    columns = (TextColumn(doing), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=out, transient=True, disable=not out.is_terminal) as bar:
        task = bar.add_task(doing, total=all_bytes)
        yield lambda octets: bar.advance(task, octets)
