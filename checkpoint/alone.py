"""Checkpoints of a script that no Holdfast runs: straight to the store, while the script waits.

Used by the checkpointer where a script named a `store_url`. Ranks meet by `torch.distributed`; rank
0 says where they start, and commits. Snapshots in memory are Holdfast's: what is here is not copied
in the background, and what dies is not started again.
"""

import logging
from collections.abc import Callable, Iterable, Mapping

import torch
from msgspec.structs import replace
from torch import distributed

from holdfast.checkpoint import earlier
from holdfast.checkpoint.fence import Superseded, check_fence, raise_fence
from holdfast.checkpoint.fetch import Absent, NotBelieved, Unreadable, whole
from holdfast.checkpoint.layout import (
    MANIFEST,
    Layout,
    folder_name,
    parse_fence,
    parse_folder,
    part_name,
)
from holdfast.checkpoint.manifest import BadManifest, decode_part, encode, merge
from holdfast.checkpoint.settings import Settings
from holdfast.checkpoint.shards import put_part
from holdfast.checkpoint.stores import Store, StoreError, open_store
from holdfast.checkpoint.sweeping import Committed, sweep
from holdfast.checkpoint.tensors import octets
from holdfast.checkpoint.together import Company, meets
from holdfast.checkpoint.words import Seal
from holdfast.protocol.messages import Restore, Stored
from holdfast.protocol.topology import Topology

_LOG = logging.getLogger("holdfast.checkpoint")

NOTHING = -1


class CannotBegin(Exception):
    """Where the ranks would start is not known, or nothing can be saved; the message says why."""


class Alone:
    """One rank's side of it, from when the ranks have met."""

    def __init__(self, settings: Settings) -> None:
        settings = _placed(settings)
        if settings.world_size > 1 and not meets(settings.world_size):
            raise CannotBegin(
                f"store_url: {settings.world_size} ranks have to meet before they restore or save. "
                "Call torch.distributed.init_process_group first."
            )
        self._company = Company(settings.world_size)
        self._store = open_store(settings.store_url)
        self.settings = self._agreed(settings)

    def _agreed(self, settings: Settings) -> Settings:
        """Where all start, and the number of this start: counted on from what the store has."""
        why, told = "", [0, NOTHING, NOTHING]
        if settings.rank == 0:
            try:
                told = [_next_epoch(self._store), *_newest(self._store, settings)]
                raise_fence(self._store, told[0])
            except (StoreError, CannotBegin) as error:
                why, told = str(error), [0, NOTHING, NOTHING]
        epoch, step, saved = self._company.hear(*told)
        if not epoch:
            raise CannotBegin(why or "rank 0 cannot use the store: its own error says why")
        restore = Restore(source="store", step=step, epoch=saved) if step != NOTHING else None
        return replace(settings, epoch=epoch, restore=restore)

    def save(self, seal: Seal, layout: Layout, tensors: Mapping[str, torch.Tensor]) -> str:
        """Write the checkpoint; "" once it is whole, else why it is not. All ranks come to the same
        end."""
        why = _tried(lambda: put_part(self._store, seal, layout, lambda n: [octets(tensors[n])]))
        if not self._company.agree(not why):
            return why or "another rank could not write its part: its own log says why"
        if seal.rank == 0:
            why = _tried(lambda: self._commit(seal))
        (failed,) = self._company.hear(int(bool(why)))
        return (why or "rank 0 could not commit it: its own log says why") if failed else ""

    def _commit(self, seal: Seal) -> None:
        folder, ranks = folder_name(seal.step, seal.epoch), range(seal.world_size)
        data = [b"".join(self._store.get(f"{folder}/{part_name(rank)}")) for rank in ranks]
        manifest = merge(seal.job, [decode_part(one) for one in data])
        check_fence(self._store, seal.epoch)
        self._store.put(f"{folder}/{MANIFEST}", [encode(manifest)])
        self._sweep(seal)

    def _sweep(self, seal: Seal) -> None:
        """A store that does not let go of old checkpoints has the new one all the same."""
        committed = Committed(
            store_url=self.settings.store_url,
            step=seal.step,
            epoch=seal.epoch,
            fence_epoch=seal.epoch,
            retention=self.settings.retention,
        )
        try:
            sweep(self._store, committed, go_on=lambda: None)
        except StoreError as error:
            _LOG.warning("old checkpoints are not deleted: %s", error)


def _tried(act: Callable[[], object]) -> str:
    try:
        act()
    except (StoreError, BadManifest, Superseded) as error:
        return str(error)
    return ""


def _placed(settings: Settings) -> Settings:
    """Who this rank is, where no launcher has put it into the environment."""
    if not (distributed.is_available() and distributed.is_initialized()):
        return settings
    rank, world_size = distributed.get_rank(), distributed.get_world_size()
    known = settings.topology.world_size == world_size
    topology = settings.topology if known else Topology(dp=world_size)
    return replace(settings, rank=rank, world_size=world_size, topology=topology)


def _next_epoch(store: Store) -> int:
    names = [entry.name for entry in store.entries("")]
    places = [place[1] for name in names if (place := parse_folder(name))]
    fences = [fence for name in names if (fence := parse_fence(name)) is not None]
    return max([*places, *fences, 0]) + 1


def _newest(store: Store, settings: Settings) -> tuple[int, int]:
    """Step and epoch of the newest that can be believed, else of what is to be begun from; NOTHING
    where there is none at all. Raises `StoreError`, or `CannotBegin` where there is only damage."""
    if (point := _believed(whole(store), settings.store_url)) is not None:
        return point.step, point.epoch
    if not (url := settings.begin_from):
        _refuse_lives(store, settings.store_url)
        return NOTHING, NOTHING
    looked = earlier.look(url, watched=lambda store: store, go_on=lambda: None)
    point = _believed(map(earlier.named, looked), url)
    return (point.step, point.epoch) if point else (NOTHING, NOTHING)


def _refuse_lives(store: Store, url: str) -> None:
    """A `storeUrl` of Holdfast's jobs is not empty: nobody means to begin anew beside them."""
    for entry in store.entries(""):
        if entry.folder and any(parse_folder(each.name) for each in store.entries(entry.name)):
            raise CannotBegin(
                f"store_url: {url} has checkpoints in {entry.name}, which is another job's. Name a "
                f"folder of the script's own, and begin_from={url}/{entry.name} to go on from it."
            )


def _believed(found: Iterable[Stored | NotBelieved], url: str) -> Stored | None:
    """The first that is believed. What was torn was never whole; what is damaged is said."""
    damaged = ""
    for one in found:
        if isinstance(one, Stored):
            return one
        if isinstance(one.why, Unreadable):
            raise CannotBegin(f"{one.why}. It may be whole: nothing is restored from an older one.")
        if not isinstance(one.why, Absent):
            damaged = damaged or str(one.why)
            _LOG.warning("checkpoint refused: %s", one.why)
    if damaged:
        raise CannotBegin(f"no checkpoint at {url} can be believed: {damaged}")
    return None
