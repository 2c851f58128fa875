"""From a slot in memory to a shard and a part in the store, streamed. Used by the node's agent.

Must not load torch, nor copy a slot: its memory is written as it lies.
"""

import json
from collections.abc import Callable, Iterator

import msgspec
import xxhash

from holdfast.checkpoint.coverage import Place
from holdfast.checkpoint.layout import (
    PLAN_KEY,
    Layout,
    ShardPlan,
    folder_name,
    key_in_store,
    lay_out,
    parse_head,
    part_name,
    shard_name,
)
from holdfast.checkpoint.manifest import File, Part, encode
from holdfast.checkpoint.slots import Slot, mapped
from holdfast.checkpoint.stores import Store
from holdfast.checkpoint.words import Seal

CHUNK_BYTES = 4 << 20

Checked = Callable[[], None]
"""Called between chunks; raises where the writing is to be given up."""


class Damaged(Exception):
    """The slot is not what was sealed: its memory has changed since."""


def write_part(store: Store, slot: Slot, seal: Seal, fd: int, *, go_on: Checked) -> None:
    """Write one rank's shard, then its part. The caller holds the slot's lock by `fd`.

    Raises `Damaged` with nothing written, `StoreError`, or what `go_on` raises.
    """
    if not slot.confirm(fd, seal):
        raise Damaged(f"rank {seal.rank}, step {seal.step}: the memory slot has changed")
    go_on()  # to hash it has nothing to do with the store
    folder = folder_name(seal.step, seal.epoch)
    with mapped(fd, writable=False) as memory:
        source = parse_head(memory)
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
            name: xxhash.xxh3_64_hexdigest(memory[placed.begin : placed.end])
            for name, placed in source.tensors.items()
            if name in plan.shards and plan.shards[name].replicas
        }
        shard = _write_shard(store, folder, seal, own, memory, source, plan, go_on) if own else None
    part = Part(
        rank=seal.rank,
        step=seal.step,
        epoch=seal.epoch,
        world_size=seal.world_size,
        topology=seal.topology,
        shard=shard,
        tree=seal.tree,
        elsewhere=plan.elsewhere,
        places=places,
        replicas=replicas,
    )
    store.put(f"{folder}/{part_name(seal.rank)}", [encode(part)])


def _write_shard(
    store: Store,
    folder: str,
    seal: Seal,
    own: dict[str, str],
    memory: memoryview,
    source: Layout,
    plan: ShardPlan,
    go_on: Checked,
) -> File:
    target = lay_out(
        {key: source.tensors[name].spec for key, name in own.items()},
        _metadata(own, source, plan),
    )
    name = shard_name(seal.rank, seal.world_size)
    state = xxhash.xxh3_64()

    def stream() -> Iterator[memoryview]:
        yield memoryview(target.head)
        for key in target.tensors:
            place = source.tensors[own[key]]
            for at in range(place.begin, place.end, CHUNK_BYTES):
                go_on()
                yield memory[at : min(at + CHUNK_BYTES, place.end)]

    def hashed() -> Iterator[memoryview]:
        for chunk in stream():
            state.update(chunk)
            yield chunk

    store.put(f"{folder}/{name}", hashed())
    return File(name, target.size_bytes, state.hexdigest())


def _metadata(own: dict[str, str], source: Layout, plan: ShardPlan) -> dict[str, str]:
    """What torch's own HuggingFaceStorageReader needs to put the pieces together (2.15)."""
    offsets = {
        key: plan.shards[name].offsets
        if name in plan.shards
        else (0,) * len(source.tensors[name].spec.shape)
        for key, name in own.items()
    }
    info = {key: {"saved_offsets": place} for key, place in offsets.items()}
    return {"format": "pt", "DCP_VERSION": "1.0", "DCP_SHARDING_INFO": json.dumps(info)}
