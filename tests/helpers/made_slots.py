"""Snapshots in memory slots without a rank, and without torch, for the tests that need them."""

from pathlib import Path

import msgspec
import xxhash
from slot_sums import sum_of

from holdfast.checkpoint.slot_folder import SlotFolder
from holdfast.checkpoint.slots import Slot
from holdfast.checkpoint.words import Seal
from holdfast.protocol.topology import Topology

SIZE_BYTES = 3_000_000
HEAD_BYTES = 100


def made_seal(
    step: int,
    *,
    epoch: int = 1,
    rank: int = 0,
    job: str = "job",
    size_bytes: int = SIZE_BYTES,
) -> Seal:
    """Of `content(step)`."""
    return Seal(
        job=job,
        epoch=epoch,
        step=step,
        rank=rank,
        world_size=2,
        topology=Topology(dp=2),
        used_bytes=size_bytes,
        head_bytes=HEAD_BYTES,
        head_xxh3=xxhash.xxh3_64_hexdigest(content(step)[:HEAD_BYTES]),
        tree=msgspec.Raw(b"{}"),
    )


def content(step: int, size_bytes: int = SIZE_BYTES) -> bytes:
    """The bytes of this step's snapshot, unlike those of any other."""
    return step.to_bytes(4, "big") * (size_bytes // 4)


def put_snapshot(folder: Path, seal: Seal) -> Slot:
    """Seal it in the first slot that has none, as a rank does."""
    slot = next(slot for slot in SlotFolder(folder).slots if slot.seal() is None)
    slot.make(seal.used_bytes)
    slot.data.write_bytes(content(seal.step, seal.used_bytes))
    with slot.locked(exclusive=True) as fd:
        assert fd is not None
        digest = sum_of(slot, fd, seal)
        assert digest is not None
        slot.put_seal(seal, digest)
    return slot


def held(folder: Path) -> list[tuple[int, int]]:
    """(epoch, step) of what is sealed there and has the bytes of its step, newest first."""
    found = []
    for slot, seal in SlotFolder(folder).sealed():
        assert slot.data.read_bytes()[: seal.used_bytes] == content(seal.step, seal.used_bytes)
        found.append(seal.age)
    return found
