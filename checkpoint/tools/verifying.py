"""Reading a checkpoint through and comparing every checksum in it."""

from collections.abc import Callable

import msgspec

from holdfast.checkpoint.fetch import Absent, Refused, read_manifest, read_shard
from holdfast.checkpoint.layout import MANIFEST
from holdfast.checkpoint.manifest import File, Manifest
from holdfast.checkpoint.stores import Store, StoreError
from holdfast.checkpoint.stores.trial import told_once
from holdfast.checkpoint.tools.listing import Status
from holdfast.checkpoint.tools.places import Place, store_of

Read = Callable[[int], None]
"""Told of bytes as they are read."""


class Verdict(msgspec.Struct, frozen=True):
    """Of one file. `why`: "" where it is what was written. `unread`: the store failed at it."""

    file: str
    size_bytes: int
    why: str
    unread: bool = False


class Verified(msgspec.Struct, frozen=True):
    """Of one checkpoint. `torn`: it never had a manifest, so nothing of it is promised."""

    place: Place
    verdicts: tuple[Verdict, ...]
    torn: bool = False

    @property
    def wrong(self) -> tuple[Verdict, ...]:
        return tuple(verdict for verdict in self.verdicts if verdict.why)

    @property
    def status(self) -> Status:
        if self.torn:
            return Status.TORN
        if not self.wrong:
            return Status.WHOLE
        unread = all(verdict.unread for verdict in self.wrong)
        return Status.UNREADABLE if unread else Status.DAMAGED


def shards(manifest: Manifest) -> list[File]:
    """The files whose bytes the manifest vouches for."""
    return [part.shard for part in manifest.parts if part.shard]


def verified(place: Place, read: Read = lambda _: None) -> Verified:
    """Read all of it, to the last file, whatever is found on the way."""
    store = store_of(place)
    try:
        manifest = read_manifest(store, place.folder)
    except Absent as error:
        return Verified(place, (Verdict(MANIFEST, 0, str(error)),), torn=True)
    except Refused as error:
        return Verified(place, (Verdict(MANIFEST, 0, str(error)),))
    except StoreError as error:
        return Verified(place, (Verdict(MANIFEST, 0, told_once(error), unread=True),))
    found = (_judged(store, place, file, read) for file in shards(manifest))
    return Verified(place, (Verdict(MANIFEST, 0, ""), *found))


def _judged(store: Store, place: Place, file: File, read: Read) -> Verdict:
    try:
        read_shard(store, place.folder, file, told=read)
    except Refused as error:
        return Verdict(file.name, file.size_bytes, str(error))
    except StoreError as error:
        return Verdict(file.name, file.size_bytes, told_once(error), unread=True)
    return Verdict(file.name, file.size_bytes, "")
