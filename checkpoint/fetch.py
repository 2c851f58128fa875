"""Which checkpoints a store holds, and reading their shards, every byte checked before it is used.

Used by ranks that restore and by agents that look for whole checkpoints. An agent looks at names,
manifests and sizes, which takes milliseconds whatever the size; the bytes are checked by the ranks
that read them, each its own and all at once. Must not load torch.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress

import msgspec
import xxhash

from holdfast.checkpoint.layout import (
    MANIFEST,
    REFUSED,
    Layout,
    Placed,
    key_in_store,
    parse_folder,
    parse_head,
)
from holdfast.checkpoint.manifest import BadManifest, File, Manifest, decode_manifest
from holdfast.checkpoint.stores import NotStored, Store, StoreError
from holdfast.protocol.counts import plural
from holdfast.protocol.messages import Stored
from holdfast.protocol.topology import Axis, Topology


class Refused(Exception):
    """A checkpoint that cannot be believed; the message says which one and why."""


class Absent(Refused):
    """It has no manifest: torn, deleted, still on its way, or the folder's list lags behind."""


class Foreign(Refused):
    """It is whole, and of another job, another number of ranks, or other axes."""


class Unreadable(Refused):
    """It has its manifest, and the store fails at it alone, or does not show a shard: it may be
    whole."""


class Identity(msgspec.Struct, frozen=True):
    """Whose a snapshot or checkpoint is: another's bytes of the same shape mean something else.

    `job` is "" where a person said whose it is, and of what was made of others' weights.
    """

    job: str
    world_size: int
    topology: Topology

    def strange(self, other: "Identity") -> str:
        """Why what `other` wrote is another job's; "" where it is not. "" is any job."""
        if not self.job or other.job in ("", self.job):
            return ""
        return (
            f"written by job {other.job!r}, this is job {self.job!r}. Give each its own store; to "
            "go on from that one, name it: begin_from (beginFrom, --begin-from)."
        )

    def refuses(self, other: "Identity") -> str:
        """Why what `other` wrote is not for this one, as it lies; "" where it is."""
        if stranger := self.strange(other):
            return stranger
        if other.world_size != self.world_size:
            return (
                f"written by {plural(other.world_size, 'rank')}, this job has {self.world_size}. "
                "Run it with as many ranks."
            )
        if other.topology != self.topology:
            there, here = (_axes(one.topology) for one in (other, self))
            return f"written as {there}, this job is {here}. Run it with the same axes."
        return ""


def _axes(topology: Topology) -> str:
    sizes = " ".join(f"{axis.value} {topology.size(axis)}" for axis in Axis)
    order = ", ".join(axis.value for axis in topology.order)
    return f"{sizes} ({order} from the fastest)"


class NotBelieved(msgspec.Struct, frozen=True):
    """A checkpoint that a look-up does not take, and why."""

    point: Stored
    why: Refused


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


def identity(manifest: Manifest) -> Identity:
    return Identity(manifest.job, manifest.world_size, manifest.topology)


def pieces(store: Store, folder: str, manifest: Manifest, rank: int) -> Pieces:
    """All that `rank`, one of as many, needs of it. Raises `Refused` or `StoreError`."""
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
        raise Absent(f"{folder}: it has no manifest") from error
    except BadManifest as error:
        raise Refused(f"{folder}: its manifest: {error}") from error


def _on() -> None:
    """Nothing ends the reading before its end."""


def _untold(_: int) -> None:
    """Nobody asks how far it is."""


def read_shard(
    store: Store,
    folder: str,
    file: File,
    *,
    into: bytearray | None = None,
    go_on: Callable[[], None] = _on,
    told: Callable[[int], None] = _untold,
) -> None:
    """Read a shard through and check it; `told` hears of bytes as they come. Raises `Refused`,
    `StoreError`, or what `go_on` does."""
    state, at = xxhash.xxh3_64(), 0
    try:
        for chunk in store.get(f"{folder}/{file.name}"):
            go_on()
            state.update(chunk)
            told(len(chunk))
            if into is not None and at + len(chunk) <= len(into):
                into[at : at + len(chunk)] = chunk
            at += len(chunk)
    except NotStored:
        _check_size(folder, file, None)
    _check_size(folder, file, at)
    if state.hexdigest() != file.xxh3:
        raise Refused(f"{folder}/{file.name}: its checksum does not match the manifest's")


def whole(store: Store, *, go_on: Callable[[], None] = _on) -> Iterator[Stored | NotBelieved]:
    """Every checkpoint in the store, newest first: believed, or why it is not.

    Manifest and sizes must do, for ranks check all that they read. One that a rank has refused is
    read through, after all others and only where no newer one is believed. What the store cannot
    read of one of them hides no other. `go_on` may raise to end it. Raises `StoreError` where the
    store cannot be listed.
    """
    found, doubted = False, []
    folders = [entry.name for entry in store.entries("") if entry.folder]
    places = [(place[1], place[0], name) for name in folders if (place := parse_folder(name))]
    for epoch, step, folder in sorted(places, reverse=True):
        go_on()
        point = Stored(step=step, epoch=epoch)
        try:
            if _is_doubted(store, folder):
                doubted += [] if found else [(point, folder)]
                continue
            found = True
            yield point
        except Refused as refusal:
            yield NotBelieved(point, refusal)
    yield from _read_through(store, doubted, go_on)


def _is_doubted(store: Store, folder: str) -> bool:
    """Check manifest and sizes; True where a rank has refused it. Raises `Refused`."""
    try:
        manifest = read_manifest(store, folder)
        sizes = {entry.name: entry.size_bytes for entry in store.entries(folder)}
    except StoreError as error:
        raise Unreadable(f"{folder}: {error}") from error
    for file in _shards(manifest):
        _check_size(folder, file, sizes.get(file.name))
    return REFUSED in sizes


def _read_through(
    store: Store, doubted: list[tuple[Stored, str]], go_on: Callable[[], None]
) -> Iterator[Stored | NotBelieved]:
    """The newest of these that is whole after all, and those before it that are not."""
    for point, folder in doubted:
        try:
            for file in _shards(read_manifest(store, folder)):
                read_shard(store, folder, file, go_on=go_on)
            yield point
            return
        except Refused as refusal:
            yield NotBelieved(point, refusal)
        except StoreError as error:
            yield NotBelieved(point, Unreadable(f"{folder}: {error}"))


def _shards(manifest: Manifest) -> list[File]:
    return [part.shard for part in manifest.parts if part.shard]


def _check_size(folder: str, file: File, size_bytes: int | None) -> None:
    if size_bytes is None:
        raise Unreadable(f"{folder}/{file.name}: the shard is not there")
    if size_bytes != file.size_bytes:
        raise Refused(
            f"{folder}/{file.name}: {size_bytes} bytes, the manifest says {file.size_bytes}"
        )


def refuse(store: Store, folder: str, why: str) -> None:
    """Note in the store that a rank could not believe the checkpoint, where that can be noted."""
    with suppress(StoreError):
        store.put(f"{folder}/{REFUSED}", [f"{why}\n".encode()])
