"""From a slot in memory, or from tensors, to a shard and a part in the store, streamed.

Used by the node's agent, by ranks outside Holdfast and by tools. Must not load torch.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

import xxhash

from holdfast.checkpoint.layout import (
    Layout,
    Spec,
    folder_name,
    lay_out,
    part_name,
    shard_name,
)
from holdfast.checkpoint.manifest import File, Part, encode
from holdfast.checkpoint.reading import (
    BytesOf,
    Checked,
    Damaged,
    Reading,
    SlotReading,
    Took,
    damaged,
)
from holdfast.checkpoint.slots import Slot, mapped
from holdfast.checkpoint.stores import Buffer, Store
from holdfast.checkpoint.words import Seal

__all__ = ["Damaged", "put_part", "put_shard", "reader_metadata", "write_part"]

BLOCK_BYTES = 16 << 20
"""Who needs a range of a shard reads blocks, for each has its checksum: 64 for a GiB."""


def write_part(
    store: Store, slot: Slot, seal: Seal, fd: int, *, go_on: Checked, took: Took = lambda _: None
) -> None:
    """Write one rank's shard, then its part. The caller holds the slot's lock by `fd`.

    Raises `Damaged` with nothing written, `StoreError`, or what `go_on` raises.
    """
    if not slot.is_known(fd, seal):
        raise damaged(seal)
    with mapped(fd, writable=False) as memory:
        _put(store, SlotReading(memory, seal, slot.known_sum(seal), go_on, took))


def put_part(store: Store, seal: Seal, source: Layout, bytes_of: BytesOf) -> Part:
    """Write the shard and the part of what lies as `source` says. Raises `StoreError`."""
    return _put(store, Reading(seal, source, bytes_of))


def _put(store: Store, reading: Reading) -> Part:
    seal, folder = reading.seal, folder_name(reading.seal.step, reading.seal.epoch)
    part = Part(
        rank=seal.rank,
        step=seal.step,
        epoch=seal.epoch,
        world_size=seal.world_size,
        topology=seal.topology,
        shard=_put_own(store, folder, reading),
        tree=seal.tree,
        elsewhere=reading.plan.elsewhere,
        places=reading.places(),
        replicas=reading.replicas,
    )
    store.put(f"{folder}/{part_name(seal.rank)}", [encode(part)])
    return part


def _put_own(store: Store, folder: str, reading: Reading) -> File | None:
    """None where nothing goes to a shard: it is read all the same."""
    source, shards, own = reading.source, reading.plan.shards, reading.own
    if not own:
        for _ in reading.chunks():
            pass
        return None
    specs = {key: source.tensors[name].spec for key, name in own.items()}
    offsets = {
        key: shards[name].offsets if name in shards else (0,) * len(specs[key].shape)
        for key, name in own.items()
    }
    target = lay_out(specs, reader_metadata(offsets), in_order=True)
    name = shard_name(reading.seal.rank, reading.seal.world_size)
    return _put_file(store, folder, name, target, reading.chunks())


def put_shard(
    store: Store,
    folder: str,
    rank: int,
    world_size: int,
    specs: Mapping[str, Spec],
    metadata: Mapping[str, str],
    bytes_of: BytesOf,
) -> File:
    """Write a rank's tensors as its shard, in the order of `specs`, and say what was written.

    Raises `StoreError`.
    """
    target = lay_out(specs, metadata, in_order=True)
    body = chain.from_iterable(map(bytes_of, target.tensors))
    return _put_file(store, folder, shard_name(rank, world_size), target, body)


def _put_file(store: Store, folder: str, name: str, target: Layout, body: Iterable[Buffer]) -> File:
    sums = Sums(BLOCK_BYTES)

    def hashed() -> Iterator[Buffer]:
        for chunk in chain([memoryview(target.head)], body):
            sums.update(chunk)
            yield chunk

    store.put(f"{folder}/{name}", hashed())
    return File(name, target.size_bytes, sums.whole, sums.block_bytes, sums.blocks)


class Sums:
    """XXH3 of a file, and of each of its blocks, of bytes as they come."""

    def __init__(self, block_bytes: int) -> None:
        self.block_bytes = block_bytes
        self._whole = xxhash.xxh3_64()
        self._block = xxhash.xxh3_64()
        self._filled = 0
        self._blocks: list[str] = []

    def update(self, chunk: Buffer) -> None:
        self._whole.update(chunk)
        data = memoryview(chunk).cast("B")
        while data:
            piece = data[: self.block_bytes - self._filled]
            self._block.update(piece)
            self._filled += len(piece)
            data = data[len(piece) :]
            if self._filled == self.block_bytes:
                self._end_block()

    def _end_block(self) -> None:
        self._blocks.append(self._block.hexdigest())
        self._block.reset()
        self._filled = 0

    @property
    def whole(self) -> str:
        return self._whole.hexdigest()

    @property
    def blocks(self) -> tuple[str, ...]:
        """Of all that came, the last block as far as it goes."""
        return (*self._blocks, self._block.hexdigest()) if self._filled else tuple(self._blocks)


def reader_metadata(offsets: Mapping[str, tuple[int, ...]]) -> dict[str, str]:
    """What torch's own HuggingFaceStorageReader needs to put the pieces together (2.15)."""
    info = {key: {"saved_offsets": place} for key, place in offsets.items()}
    return {"format": "pt", "DCP_VERSION": "1.0", "DCP_SHARDING_INFO": json.dumps(info)}
