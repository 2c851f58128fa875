"""A checkpoint as one safetensors file with its tensors whole, and back, bit for bit.

What a folder has besides (ranks, structure, values) is in the file's metadata, under `holdfast`.
Shards that were cut from one tensor are put together; another rank's own tensor keeps its prefix.
"""

import mmap
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import msgspec
from msgspec.structs import replace

from holdfast.checkpoint.coverage import Place as Lies
from holdfast.checkpoint.fetch import read_manifest, read_shard
from holdfast.checkpoint.layout import (
    ITEM_BYTES,
    MANIFEST,
    Layout,
    Spec,
    as_in_slot,
    folder_name,
    lay_out,
    parse_head,
)
from holdfast.checkpoint.manifest import Manifest, Part, apart, encode, merge
from holdfast.checkpoint.shards import put_shard, reader_metadata
from holdfast.checkpoint.stores import Store
from holdfast.checkpoint.tools.contents import head_of
from holdfast.checkpoint.tools.places import Place, store_of
from holdfast.kit.files import beside
from holdfast.protocol.topology import Axis

if TYPE_CHECKING:
    from numpy import ndarray

KEY = "holdfast"
"""In the file's metadata: all of the folder that is no tensor."""

Read = Callable[[int], None]


class Piece(msgspec.Struct, frozen=True):
    """A tensor of a shard: where it lies in which tensor of the file."""

    target: str
    offsets: tuple[int, ...]
    shape: tuple[int, ...]


class Contents(msgspec.Struct, frozen=True, kw_only=True):
    """What makes a file a checkpoint again. `pieces`: of each rank, by the name in its shard."""

    manifest: Manifest
    pieces: tuple[dict[str, Piece], ...]


_CONTENTS = msgspec.json.Decoder(Contents)


class NotOurs(Exception):
    """The file cannot be made a checkpoint; the message says why."""


# ---------------------------------------------------------------- to one file


def write_file(place: Place, path: Path, read: Read = lambda _: None) -> Layout:
    """Write the checkpoint's tensors, each whole, to `path`; every checksum is compared.

    Raises `Refused`, `StoreError` or `OSError` with nothing at `path` that was not there.
    """
    store = store_of(place)
    manifest = read_manifest(store, place.folder)
    layouts = [_head(store, place, part) for part in manifest.parts]
    contents, specs = _planned(manifest, layouts)
    text = msgspec.json.encode(contents).decode()
    layout = lay_out(specs, {"format": "pt", KEY: text})
    new = Path(f"{beside(path)}.tmp")
    try:
        with new.open("w+b") as file:
            file.write(layout.head)
            file.truncate(layout.size_bytes)
            for part, pieces in zip(manifest.parts, contents.pieces, strict=True):
                _copy_shard(store, place, part, pieces, layout, file, read)
            file.flush()
            os.fsync(file.fileno())
        new.rename(path)
    finally:
        new.unlink(missing_ok=True)
    return layout


def _head(store: Store, place: Place, part: Part) -> Layout | None:
    return head_of(store, f"{place.folder}/{part.shard.name}") if part.shard else None


def _planned(manifest: Manifest, layouts: list[Layout | None]) -> tuple[Contents, dict[str, Spec]]:
    """Which piece goes where, and the tensors that come of it."""
    staged, specs = apart(manifest), dict[str, Spec]()
    pieces: list[dict[str, Piece]] = []
    for part, layout in zip(manifest.parts, layouts, strict=True):
        mine = {}
        for name, placed in (layout.tensors if layout else {}).items():
            shape = placed.spec.shape
            lies = part.places.get(name, Lies(shape, (0,) * len(shape), shape))
            target = f"stage-{_stage(manifest, part.rank)}.{name}" if name in staged else name
            specs[target] = Spec(placed.spec.dtype, lies.whole)
            mine[name] = Piece(target, lies.offsets, shape)
        pieces.append(mine)
    return Contents(manifest=manifest, pieces=tuple(pieces)), specs


def _stage(manifest: Manifest, rank: int) -> int:
    return manifest.topology.coordinates(rank)[Axis.PP]


def _copy_shard(
    store: Store,
    place: Place,
    part: Part,
    pieces: Mapping[str, Piece],
    layout: Layout,
    file: BinaryIO,
    read: Read,
) -> None:
    """Read one shard, check it, and put its tensors where they belong."""
    if part.shard is None:
        return
    data = bytearray(part.shard.size_bytes)
    read_shard(store, place.folder, part.shard, into=data, told=read)
    source = parse_head(data)
    with mmap.mmap(file.fileno(), layout.size_bytes) as memory:
        for name, piece in pieces.items():
            _box(memory, layout, piece)[...] = _array(data, source, name)


def _array(data: "bytearray | mmap.mmap", layout: Layout, name: str) -> "ndarray[Any, Any]":
    """A tensor's elements, whatever their type is, as so many bytes each."""
    import numpy as np

    placed = layout.tensors[name]
    item = np.dtype(f"V{ITEM_BYTES[placed.spec.dtype]}")
    count = (placed.end - placed.begin) // item.itemsize
    return np.frombuffer(data, item, count, placed.begin if count else 0).reshape(placed.spec.shape)


def _box(data: "bytearray | mmap.mmap", layout: Layout, piece: Piece) -> "ndarray[Any, Any]":
    sides = zip(piece.offsets, piece.shape, strict=True)
    parts: list[Any] = [slice(at, at + size) for at, size in sides]
    return _array(data, layout, piece.target)[(*parts, ...)]  # "...": a scalar is a view, too


# ---------------------------------------------------------------- and back


def read_file(path: Path, store: Store, *, key: str, step: int, read: Read = lambda _: None) -> str:
    """Make the file a checkpoint in the store; the name of its folder.

    One that Holdfast wrote becomes what it was. Of any other the tensors become the state's `key`,
    at `step`. Raises `NotOurs`, `StoreError` or `OSError` with no manifest written.
    """
    with path.open("rb") as file:
        if not os.fstat(file.fileno()).st_size:
            raise NotOurs(f"{path} is empty")
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as memory:
            layout = _layout(path, memory)
            contents = _contents(path, layout, key, step)
            manifest = contents.manifest
            folder = folder_name(manifest.step, manifest.epoch)
            if MANIFEST in {entry.name for entry in store.entries(folder)}:
                raise NotOurs(f"{folder} is there already, and is not written over")
            parts = [
                _put(store, folder, part, pieces, layout, memory, read)
                for part, pieces in zip(manifest.parts, contents.pieces, strict=True)
            ]
    data = encode(merge(manifest.job, parts))
    store.put(f"{folder}/{MANIFEST}", [data])
    return folder


def _layout(path: Path, memory: mmap.mmap) -> Layout:
    try:
        layout = parse_head(memory[: 8 + int.from_bytes(memory[:8], "little")])
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise NotOurs(f"{path} is no safetensors file: {error}") from error
    if layout.size_bytes > len(memory):
        raise NotOurs(f"{path} is cut off: {len(memory)} bytes of {layout.size_bytes}")
    return layout


def _contents(path: Path, layout: Layout, key: str, step: int) -> Contents:
    if KEY not in layout.metadata:
        return _of_others(layout, key, step)
    try:
        contents = _CONTENTS.decode(layout.metadata[KEY])
    except msgspec.DecodeError as error:
        raise NotOurs(f"{path}: what it says of itself cannot be read: {error}") from error
    wanted = {piece.target for pieces in contents.pieces for piece in pieces.values()}
    if absent := sorted(wanted - layout.tensors.keys()):
        raise NotOurs(f"{path} has no tensor {absent[0]!r}, which it says that it has")
    return contents


def _of_others(layout: Layout, key: str, step: int) -> Contents:
    """One rank's state, in which the tensors are a model's."""
    tree = [{key: {name: {"$tensor": f"{key}.{name}"} for name in layout.tensors}}, {}]
    pieces = {
        f"{key}.{name}": Piece(name, (0,) * len(placed.spec.shape), placed.spec.shape)
        for name, placed in layout.tensors.items()
    }
    part = Part(
        rank=0, step=step, epoch=0, world_size=1, tree=msgspec.Raw(msgspec.json.encode(tree))
    )
    manifest = Manifest(job="", step=step, epoch=0, world_size=1, parts=(part,))
    return Contents(manifest=manifest, pieces=(pieces,))


def _put(
    store: Store,
    folder: str,
    part: Part,
    pieces: Mapping[str, Piece],
    layout: Layout,
    memory: mmap.mmap,
    read: Read,
) -> Part:
    """Write one rank's shard anew, as it was."""
    if not pieces:
        return part
    specs = as_in_slot(
        {
            name: Spec(layout.tensors[piece.target].spec.dtype, piece.shape)
            for name, piece in pieces.items()
        },
        part.rank,
    )
    offsets = {name: piece.offsets for name, piece in pieces.items()}

    def bytes_of(name: str) -> Iterator[bytes]:
        data = _box(memory, layout, pieces[name]).tobytes()
        read(len(data))
        yield data

    shard = put_shard(
        store, folder, part.rank, part.world_size, specs, reader_metadata(offsets), bytes_of
    )
    if part.shard not in (None, shard):
        raise NotOurs(f"the tensors of rank {part.rank} are not those that were converted")
    return replace(part, shard=shard)
