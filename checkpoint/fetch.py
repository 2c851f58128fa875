"""Reading a whole checkpoint's shards from a store, every byte checked before it is used.

Used by ranks that restore and by agents that look for whole checkpoints. Must not load torch.
"""

from collections.abc import Iterator
from contextlib import suppress

import msgspec
import xxhash

from holdfast.checkpoint.layout import (
    MANIFEST,
    REFUSED,
    Layout,
    Placed,
    folder_name,
    key_in_store,
    parse_folder,
    parse_head,
)
from holdfast.checkpoint.manifest import BadManifest, File, Manifest, decode_manifest
from holdfast.checkpoint.stores import NotStored, Store, StoreError
from holdfast.protocol.messages import Stored


class Refused(Exception):
    """A checkpoint that cannot be believed; the message says which one and why."""


class Pieces(msgspec.Struct, frozen=True):
    """What one rank needs of a checkpoint: its tree, and the shards that hold its tensors."""

    rank: int
    tree: bytes
    elsewhere: dict[str, int]
    shards: dict[int, tuple[bytearray, Layout]]

    def find(self, name: str) -> tuple[bytearray, Placed]:
        """The shard and the place of a tensor. Raises `KeyError`."""
        rank = self.elsewhere.get(name, self.rank)
        data, layout = self.shards[rank]
        own = key_in_store(name, rank, declared=False)
        return data, layout.tensors[own] if own in layout.tensors else layout.tensors[name]


def fetch(store: Store, *, step: int, epoch: int, rank: int, world_size: int) -> Pieces:
    """All that `rank` needs of the checkpoint. Raises `Refused` or `StoreError`."""
    folder = folder_name(step, epoch)
    manifest = read_manifest(store, folder)
    if manifest.world_size != world_size:
        raise Refused(
            f"{folder}: written by {manifest.world_size} ranks, this job has {world_size}. "
            "Run it with as many ranks."
        )
    part = manifest.parts[rank]
    shards = {}
    for writer in sorted({rank, *part.elsewhere.values()}):
        if file := manifest.parts[writer].shard:
            data = bytearray(file.size_bytes)
            read_shard(store, folder, file, into=data)
            shards[writer] = (data, parse_head(data))
    return Pieces(rank, bytes(part.tree), part.elsewhere, shards)


def read_manifest(store: Store, folder: str) -> Manifest:
    """The manifest of a checkpoint's folder. Raises `Refused` or `StoreError`."""
    place = parse_folder(folder)
    if place is None:
        raise Refused(f"{folder}: not the name of a checkpoint")
    step, epoch = place
    try:
        data = b"".join(store.get(f"{folder}/{MANIFEST}"))
        return decode_manifest(data, step=step, epoch=epoch)
    except NotStored as error:
        raise Refused(f"{folder}: it has no manifest") from error
    except BadManifest as error:
        raise Refused(f"{folder}: its manifest: {error}") from error


def read_shard(store: Store, folder: str, file: File, *, into: bytearray | None = None) -> None:
    """Read a shard through and check it. Raises `Refused` or `StoreError`."""
    state, at = xxhash.xxh3_64(), 0
    try:
        for chunk in store.get(f"{folder}/{file.name}"):
            state.update(chunk)
            if into is not None and at + len(chunk) <= len(into):
                into[at : at + len(chunk)] = chunk
            at += len(chunk)
    except NotStored:
        _check_size(folder, file, None)
    _check_size(folder, file, at)
    if state.hexdigest() != file.xxh3:
        raise Refused(f"{folder}/{file.name}: its checksum does not match the manifest's")


def whole(store: Store) -> Iterator[Stored | Refused]:
    """Every checkpoint in the store, newest first: believed, or why it is refused.

    Shards are read through until one checkpoint was found whole, the one that a restore needs. Of
    older ones the manifest and the sizes must do, for ranks check all that they read; one that a
    rank has refused is read through again.
    """
    found = False
    folders = [entry.name for entry in store.entries("") if entry.folder]
    places = [(place[1], place[0], name) for name in folders if (place := parse_folder(name))]
    for epoch, step, folder in sorted(places, reverse=True):
        try:
            _believe(store, folder, unread=found)
            found = True
            yield Stored(step=step, epoch=epoch)
        except Refused as refusal:
            yield refusal


def _believe(store: Store, folder: str, *, unread: bool) -> None:
    """Check the folder, its shards' bytes unless `unread`. Raises `Refused` or `StoreError`."""
    manifest = read_manifest(store, folder)
    sizes = {entry.name: entry.size_bytes for entry in store.entries(folder)}
    shards = [part.shard for part in manifest.parts if part.shard]
    for file in shards:
        _check_size(folder, file, sizes.get(file.name))
    for file in shards if REFUSED in sizes or not unread else ():
        read_shard(store, folder, file)


def _check_size(folder: str, file: File, size_bytes: int | None) -> None:
    if size_bytes is None:
        raise Refused(f"{folder}/{file.name}: the shard is not there")
    if size_bytes != file.size_bytes:
        raise Refused(
            f"{folder}/{file.name}: {size_bytes} bytes, the manifest says {file.size_bytes}"
        )


def refuse(store: Store, *, step: int, epoch: int, why: str) -> None:
    """Note in the store that a rank could not believe the checkpoint, where that can be noted."""
    with suppress(StoreError):
        store.put(f"{folder_name(step, epoch)}/{REFUSED}", [f"{why}\n".encode()])
