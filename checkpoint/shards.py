"""From a slot in memory to a shard and a part in the store, streamed. Used by the node's agent.

Must not load torch, nor copy a slot: its memory is written as it lies.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping

import msgspec
import xxhash

from holdfast.checkpoint.coverage import Place
from holdfast.checkpoint.layout import (
    PLAN_KEY,
    Layout,
    ShardPlan,
    Spec,
    folder_name,
    key_in_store,
    lay_out,
    parse_head,
    part_name,
    shard_name,
)
from holdfast.checkpoint.manifest import File, Part, encode
from holdfast.checkpoint.slots import Slot, mapped
from holdfast.checkpoint.stores import Buffer, Store
from holdfast.checkpoint.words import Seal

CHUNK_BYTES = 4 << 20

BLOCK_BYTES = 16 << 20
"""Who needs a range of a shard reads blocks, for each has its checksum: 64 for a GiB."""

Checked = Callable[[], None]
"""Called between chunks; raises where the writing is to be given up."""


BytesOf = Callable[[str], Iterable[Buffer]]
"""The bytes of a tensor, by its name."""


class Damaged(Exception):
    """The slot is not what was sealed: its memory has changed since."""


def write_part(store: Store, slot: Slot, seal: Seal, fd: int, *, go_on: Checked) -> None:
    """Write one rank's shard, then its part. The caller holds the slot's lock by `fd`.

    Raises `Damaged` with nothing written, `StoreError`, or what `go_on` raises.
    """
    if not slot.confirm(fd, seal):
        raise Damaged(f"rank {seal.rank}, step {seal.step}: the memory slot has changed")
    go_on()  # to hash it has nothing to do with the store
    with mapped(fd, writable=False) as memory:
        source = parse_head(memory)

        def bytes_of(name: str) -> Iterator[memoryview]:
            place = source.tensors[name]
            for at in range(place.begin, place.end, CHUNK_BYTES):
                go_on()
                yield memory[at : min(at + CHUNK_BYTES, place.end)]

        put_part(store, seal, source, bytes_of)


def put_part(store: Store, seal: Seal, source: Layout, bytes_of: BytesOf) -> Part:
    """Write the shard and the part of what lies as `source` says. Raises `StoreError`."""
    folder = folder_name(seal.step, seal.epoch)
    plan = msgspec.json.decode(source.metadata[PLAN_KEY], type=ShardPlan)
    own = {
        key_in_store(name, seal.rank, declared=name in plan.shards): name
        for name in source.tensors
        if name not in plan.elsewhere
    }
    places = {
        name: Place(one.global_shape, one.offsets, source.tensors[name].spec.shape)
        for name in own.values()
        if (one := plan.shards.get(name))
    }
    replicas = {
        name: _digest(bytes_of(name))
        for name in source.tensors
        if name in plan.shards and plan.shards[name].shared
    }
    part = Part(
        rank=seal.rank,
        step=seal.step,
        epoch=seal.epoch,
        world_size=seal.world_size,
        topology=seal.topology,
        shard=_put_own(store, folder, seal, own, source, plan, bytes_of) if own else None,
        tree=seal.tree,
        elsewhere=plan.elsewhere,
        places=places,
        replicas=replicas,
    )
    store.put(f"{folder}/{part_name(seal.rank)}", [encode(part)])
    return part


def _digest(chunks: Iterable[Buffer]) -> str:
    state = xxhash.xxh3_64()
    for chunk in chunks:
        state.update(chunk)
    return state.hexdigest()


def _put_own(
    store: Store,
    folder: str,
    seal: Seal,
    own: dict[str, str],
    source: Layout,
    plan: ShardPlan,
    bytes_of: BytesOf,
) -> File:
    specs = {key: source.tensors[name].spec for key, name in own.items()}
    offsets = {
        key: plan.shards[name].offsets if name in plan.shards else (0,) * len(specs[key].shape)
        for key, name in own.items()
    }
    return put_shard(
        store,
        folder,
        seal.rank,
        seal.world_size,
        specs,
        reader_metadata(offsets),
        lambda key: bytes_of(own[key]),
    )


def put_shard(
    store: Store,
    folder: str,
    rank: int,
    world_size: int,
    specs: Mapping[str, Spec],
    metadata: Mapping[str, str],
    bytes_of: BytesOf,
) -> File:
    """Write a rank's tensors as its shard, and say what was written. Raises `StoreError`."""
    target = lay_out(specs, metadata)
    name = shard_name(rank, world_size)
    sums = Sums(BLOCK_BYTES)

    def hashed() -> Iterator[Buffer]:
        sums.update(target.head)
        yield target.head
        for key in target.tensors:
            for chunk in bytes_of(key):
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
