"""What a URL of a store means: one checkpoint, the checkpoints of one life, or several lives.

Used by the other tools and by whoever begins from an earlier life.
"""

from collections.abc import Iterator

import msgspec

from holdfast.checkpoint.layout import MANIFEST, folder_name, parse_folder
from holdfast.checkpoint.stores import Store, StoredFile, open_store
from holdfast.checkpoint.stores.file import FileStore
from holdfast.protocol import storeurl
from holdfast.protocol.counts import plural

DCP_METADATA = ".metadata"
"""By this file a checkpoint of torch's DCP is known."""

MOST_NAMED = 5


class NoCheckpoint(Exception):
    """Nothing of ours is there: what is, in a sentence, and what to do about it in `fix`."""

    def __init__(self, sentence: str, fix: str) -> None:
        super().__init__(sentence)
        self.fix = fix


class Life(msgspec.Struct, frozen=True):
    """A folder of checkpoints, as one job writes it. `name` is "" where the URL itself is that."""

    name: str
    url: str


class Place(msgspec.Struct, frozen=True):
    """A folder that may be a checkpoint: the one of (step, epoch) in this life."""

    life: Life
    step: int
    epoch: int

    @property
    def folder(self) -> str:
        return folder_name(self.step, self.epoch)

    @property
    def url(self) -> str:
        return f"{self.life.url}/{self.folder}"

    @property
    def age(self) -> tuple[int, int]:
        """Order of checkpoints: later epochs know the true history, then later steps."""
        return (self.epoch, self.step)


def found(url: str) -> list[Place]:
    """All that may be checkpoints at `url`, its own before those of lives below it, the newest of
    each first.

    Raises `NoCheckpoint` where there is none, `StoreError` where the store cannot be read.
    """
    url = url.rstrip("/")
    above, _, name = url.rpartition("/")
    if place := parse_folder(name):
        open_store(url)  # refuses what is no store by the name that was typed
        return [_named(Place(Life("", above), *place))]
    store = open_store(url)
    there = store.entries("")
    places = list(_below(Life("", url), there))
    for entry in there:
        if entry.folder and not parse_folder(entry.name):
            life = Life(entry.name, f"{url}/{entry.name}")
            places += _below(life, store.entries(entry.name))
    if not places:
        raise _none(url, there)
    return places


def _below(life: Life, entries: list[StoredFile]) -> Iterator[Place]:
    known = (parse_folder(entry.name) for entry in entries if entry.folder)
    places = [Place(life, *each) for each in known if each]
    yield from sorted(places, key=lambda place: place.age, reverse=True)


def _named(place: Place) -> Place:
    if not open_store(place.life.url).entries(place.folder):
        raise NoCheckpoint(
            f"there is nothing at {place.url}.",
            f"List what is: holdfast checkpoint ls {place.life.url}",
        )
    return place


def _none(url: str, there: list[StoredFile]) -> NoCheckpoint:
    names = [f"{entry.name}/" if entry.folder else entry.name for entry in there]
    if not names:
        return NoCheckpoint(
            f"there is nothing at {url}.",
            "Check the URL: `holdfast status --json` has a job's, store_url.",
        )
    if DCP_METADATA in names:
        return NoCheckpoint(
            f"{url} is a checkpoint of torch's DCP, whose metadata is a pickle.",
            f"Take it over: holdfast checkpoint convert {url} TARGET --unsafe-pickle",
        )
    if MANIFEST in names:
        return NoCheckpoint(
            f"{url} has a manifest, and no name of a checkpoint.",
            "Give the folder back the name that it had: step-…",
        )
    more = f" and {plural(len(names) - MOST_NAMED, 'other')}" if len(names) > MOST_NAMED else ""
    return NoCheckpoint(
        f"no checkpoint of Holdfast at {url}: it has {', '.join(names[:MOST_NAMED])}{more}.",
        "Name a storeUrl, a folder life-… in it, or one checkpoint in it.",
    )


def store_of(place: Place) -> Store:
    """The store in which `place.folder` lies, for whoever does not want to wait at a pipe."""
    known = storeurl.place_of(place.life.url)
    if known is not None and known.scheme == "file":
        return FileStore(known.path, waits=False)
    return open_store(place.life.url)
