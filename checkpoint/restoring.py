"""What a rank restores from, opened and believed: its node's memory, a copy, or the store.

Used by the checkpointer. Must not give anything whose checksum was not compared.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from msgspec.structs import replace

from holdfast.checkpoint import digest, peers, saved, tree
from holdfast.checkpoint.fetch import Foreign, Identity, Refused, refuse
from holdfast.checkpoint.layout import parse_head
from holdfast.checkpoint.reshard import Wanted
from holdfast.checkpoint.saved import Saved
from holdfast.checkpoint.settings import Settings
from holdfast.checkpoint.slot_folder import SlotFolder
from holdfast.checkpoint.slots import NoRoom, Slot
from holdfast.checkpoint.stores import StoreError
from holdfast.checkpoint.tensors import view
from holdfast.checkpoint.threads import at_hand
from holdfast.checkpoint.together import ElsewhereRefused
from holdfast.checkpoint.words import Seal
from holdfast.protocol.messages import EARLIER, Restore


class RestoreFailed(Exception):
    """What all ranks agreed to start from cannot be had here; the message says why."""


class CheckpointRefused(RestoreFailed):
    """The step, in memory or store, cannot be believed or read: the job goes back to an older one.

    The driver knows it by this name (`protocol.faults.CHECKPOINT_REFUSED`).
    """


class CheckpointMisfit(tree.Mismatch):
    """The state that is restored into has other names or shapes than the checkpoint.

    The driver knows it by this name (`protocol.faults.CHECKPOINT_MISFIT`).
    """


def misfit(settings: Settings, wanted: Restore, misfits: tree.Mismatch) -> CheckpointMisfit:
    """All of them, where it was read, and what to do."""
    alike = "Give the state the names and shapes that it had then, or"
    if wanted.epoch == EARLIER:
        place = settings.begin_from
        fix = (
            "Name another checkpoint (--begin-from, beginFrom, begin_from), make a file of this "
            "one with `holdfast checkpoint convert` and take its tensors, or begin anew without."
        )
    elif settings.alone:
        place = settings.store_url
        fix = f"{alike} name another store_url, and begin_from for a checkpoint that fits."
    else:
        place = settings.store_url if wanted.source == "store" else "the memory of this node"
        fix = (
            f"{alike} start the script as a new job: it begins anew, or with a checkpoint that "
            "fits (--begin-from, beginFrom)."
        )
    what = f"step {wanted.step} of {place} does not fit the script's state"
    return CheckpointMisfit(f"{what}: {misfits}. Nothing was changed. {fix}")


@contextmanager
def from_memory(settings: Settings, folder: SlotFolder, wanted: Restore) -> Iterator[Saved]:
    """This rank's snapshot of that step, had from another node first where this one lacks it.

    Raises `RestoreFailed`.
    """
    what = f"step {wanted.step} in the memory of this node"
    _fetch(settings, folder, wanted, what)
    found = folder.find(step=wanted.step, epoch=wanted.epoch)
    if found is None:
        raise CheckpointRefused(f"{what}: not there")
    _check_whose(settings, found[1], what)
    with _believed(*found, what) as data:
        placed = parse_head(data).tensors

        def find(name: str) -> torch.Tensor:
            return view(data, placed[name])

        state, generators = tree.decode(bytes(found[1].tree))
        yield Saved(state, generators, find, find)


@contextmanager
def from_store(settings: Settings, wanted: Restore, holds: Callable[[], Wanted]) -> Iterator[Saved]:
    """The checkpoint of that step, for this rank, which `holds` this. Raises `RestoreFailed`."""
    place, of = None, _identity(settings)
    if wanted.epoch == EARLIER:
        of = replace(of, job="")
    try:
        place = saved.place(settings, wanted)
        with saved.in_store(*place, rank=settings.rank, of=of, holds=holds) as found:
            yield found
    except Foreign as error:
        raise RestoreFailed(str(error)) from error
    except (Refused, StoreError) as error:
        if place is not None and not isinstance(error, ElsewhereRefused):
            refuse(*place, str(error))
        raise CheckpointRefused(str(error)) from error


def _identity(settings: Settings) -> Identity:
    return Identity(settings.job, settings.world_size, settings.topology)


def _check_whose(settings: Settings, seal: Seal, what: str) -> None:
    written = Identity(seal.job, seal.world_size, seal.topology)
    if stranger := _identity(settings).refuses(written):
        raise RestoreFailed(f"{what}: {stranger}")
    if seal.rank != settings.rank:
        raise RestoreFailed(f"{what}: it is rank {seal.rank}'s, this is {settings.rank}")


@contextmanager
def _believed(slot: Slot, seal: Seal, what: str) -> Iterator[memoryview]:
    """Its bytes, whose checksum is compared, while nobody may write over it."""
    with slot.locked(exclusive=False) as fd:
        known = slot.known_sum(seal)
        if fd is None or known is None:
            raise CheckpointRefused(f"{what}: its checksum is not known")
        data = slot.contents(fd, seal)
        if data is None or known != digest.of_all(seal, data, threads=at_hand()):
            slot.break_seal()
            raise CheckpointRefused(f"{what}: its checksum does not match")
        yield data


def _fetch(settings: Settings, folder: SlotFolder, wanted: Restore, what: str) -> None:
    """What is only in another node's memory is put into this one's."""
    rank, here = settings.rank, folder.find(step=wanted.step, epoch=wanted.epoch)
    if here is not None or (peer := wanted.peers.get(rank)) is None:
        return
    named = (settings.job, rank, wanted.step, wanted.epoch)
    try:
        peers.fetch(peer, peers.key_of(settings.store_url), folder, named)
    except (OSError, peers.Refused, NoRoom) as error:
        raise CheckpointRefused(f"{what}: its copy on {peer.address}: {error}") from error
