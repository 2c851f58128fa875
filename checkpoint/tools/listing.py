"""What checkpoints are worth, by names, manifests and sizes alone: no shard is read."""

import re
from enum import StrEnum

import msgspec

from holdfast.checkpoint.fetch import Absent, Refused, read_manifest
from holdfast.checkpoint.layout import MANIFEST, REFUSED
from holdfast.checkpoint.manifest import Manifest
from holdfast.checkpoint.stores import Store, StoredFile, StoreError
from holdfast.checkpoint.stores.trial import told_once
from holdfast.checkpoint.tools.places import Place, store_of


class Status(StrEnum):
    """What can be said of a checkpoint without reading it through."""

    WHOLE = "whole"  # its manifest is there, and all shards have their sizes
    TORN = "torn"  # it has no manifest: still being written, or given up
    DAMAGED = "damaged"  # it was whole
    UNREADABLE = "unreadable"  # the store does not give it, or not to us: it may be whole


class Listed(msgspec.Struct, frozen=True, kw_only=True):
    """One checkpoint. `changed_s`: seconds since 1970, None where the store does not say."""

    place: Place
    status: Status
    why: str
    size_bytes: int
    changed_s: float | None
    manifest: Manifest | None


def listed(place: Place) -> Listed:
    """Look at one. Raises `StoreError` where its folder cannot be listed."""
    store = store_of(place)
    entries = store.entries(place.folder)
    manifest, status, why = _judged(store, place, {entry.name: entry for entry in entries})
    times = [entry.changed_s for entry in entries if entry.changed_s is not None]
    return Listed(
        place=place,
        status=status,
        why=why,
        size_bytes=sum(entry.size_bytes for entry in entries),
        changed_s=max(times, default=None),
        manifest=manifest,
    )


def _judged(
    store: Store, place: Place, files: dict[str, StoredFile]
) -> tuple[Manifest | None, Status, str]:
    try:
        manifest = read_manifest(store, place.folder)
    except Absent:
        return None, Status.TORN, _lacks(files)
    except Refused as error:
        return None, Status.DAMAGED, f"{MANIFEST}: {error}"
    except StoreError as error:
        return None, Status.UNREADABLE, told_once(error)
    for part in manifest.parts:
        if part.shard and (wrong := _wrong_size(part.shard.name, part.shard.size_bytes, files)):
            return manifest, Status.DAMAGED, wrong
    if REFUSED in files:
        return manifest, Status.DAMAGED, f"a rank refused it: {_text(store, place)}"
    return manifest, Status.WHOLE, ""


def _wrong_size(name: str, size_bytes: int, files: dict[str, StoredFile]) -> str:
    if name not in files:
        return f"{name} is not there"
    if files[name].size_bytes != size_bytes:
        return f"{name}: {files[name].size_bytes} bytes, the manifest says {size_bytes}"
    return ""


def _lacks(files: dict[str, StoredFile]) -> str:
    """How far its writing got, from the names of its files."""
    if lost := [name for name in files if name.startswith("lost-")]:
        return f"given up: rank {int(lost[0][5:10])} had lost the step"
    parts = sum(name.startswith("part-") for name in files)
    worlds = [match[1] for name in files if (match := re.search(r"-of-(\d+)\.safetensors$", name))]
    of = f" of {int(worlds[0])}" if worlds else ""
    return f"no {MANIFEST}; {parts}{of} parts of ranks are there"


def _text(store: Store, place: Place) -> str:
    try:
        return b"".join(store.get(f"{place.folder}/{REFUSED}")).decode(errors="replace").strip()
    except StoreError as error:
        return str(error)
