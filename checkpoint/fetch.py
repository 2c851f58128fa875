"""Reading a whole checkpoint's shards from a store, every byte checked before it is used.

Used by ranks that restore and by agents that look for whole checkpoints. Must not load torch.
"""

from collections.abc import Iterator

import msgspec
import xxhash

from holdfast.checkpoint.layout import (
    MANIFEST,
    Layout,
    Placed,
    folder_name,
    key_in_store,
    parse_folder,
    parse_head,
)
from holdfast.checkpoint.manifest import BadManifest, File, Manifest, decode_manifest
from holdfast.checkpoint.stores import NotStored, Store
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
    except NotStored as error:
        raise Refused(f"{folder}/{file.name}: the shard is not there") from error
    if at != file.size_bytes:
        raise Refused(f"{folder}/{file.name}: {at} bytes, the manifest says {file.size_bytes}")
    if state.hexdigest() != file.xxh3:
        raise Refused(f"{folder}/{file.name}: its checksum does not match the manifest's")


def whole(store: Store) -> Iterator[Stored | Refused]:
    """Every checkpoint in the store, newest first: whole and verified, or why it is refused."""
    folders = [entry.name for entry in store.entries("") if entry.folder]
    places = [(place[1], place[0], name) for name in folders if (place := parse_folder(name))]
    for epoch, step, folder in sorted(places, reverse=True):
        try:
            for part in read_manifest(store, folder).parts:
                if part.shard:
                    read_shard(store, folder, part.shard)
            yield Stored(step=step, epoch=epoch)
        except Refused as refusal:
            yield refusal
