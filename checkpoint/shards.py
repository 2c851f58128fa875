"""From a slot in memory to a shard and a part in the store, streamed. Used by the node's agent.

Must not load torch, nor copy a slot: its memory is written as it lies.
"""

import json
from collections.abc import Callable, Iterator
from itertools import chain

import msgspec
import xxhash

from holdfast.checkpoint.coverage import Place
from holdfast.checkpoint.digest import CHUNK_BYTES, Running
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

Checked = Callable[[], None]
"""Called between chunks; raises where the writing is to be given up."""


Took = Callable[[int], None]
"""Told of so many bytes that are done with; may rest."""


class Damaged(Exception):
    """The slot is not what was sealed: its memory has changed since."""


def write_part(
    store: Store, slot: Slot, seal: Seal, fd: int, *, go_on: Checked, took: Took = lambda _: None
) -> None:
    """Write one rank's shard, then its part. The caller holds the slot's lock by `fd`.

    Raises `Damaged` with nothing written, `StoreError`, or what `go_on` raises.
    """
    if not slot.is_known(fd, seal):
        raise _damaged(seal)
    folder = folder_name(seal.step, seal.epoch)
    with mapped(fd, writable=False) as memory:
        reading = Reading(memory, seal, slot.known_sum(seal), go_on, took)
        shard = _write_shard(store, folder, reading)
    part = Part(
        rank=seal.rank,
        step=seal.step,
        epoch=seal.epoch,
        world_size=seal.world_size,
        topology=seal.topology,
        shard=shard,
        tree=seal.tree,
        elsewhere=reading.plan.elsewhere,
        places=reading.places(),
        replicas=reading.replicas,
    )
    store.put(f"{folder}/{part_name(seal.rank)}", [encode(part)])


def _damaged(seal: Seal) -> Damaged:
    return Damaged(f"rank {seal.rank}, step {seal.step}: the memory slot has changed")


class Reading:
    """A slot that is read once, in order, for all that has to be known of its bytes.

    `own`: what goes to this rank's shard, by its key there. `replicas`: XXH3 of what others have,
    too; known once all is read.
    """

    def __init__(
        self, memory: memoryview, seal: Seal, known: str | None, go_on: Checked, took: Took
    ) -> None:
        self.seal = seal
        self.source = parse_head(memory)
        self.plan = msgspec.json.decode(self.source.metadata[PLAN_KEY], type=ShardPlan)
        self.replicas: dict[str, str] = {}
        self.own = {
            key_in_store(name, seal.rank, declared=name in self.plan.shards): name
            for name in self.source.tensors
            if name not in self.plan.elsewhere
        }
        self._memory = memory
        self._known = known
        self._go_on = go_on
        self._took = took

    def places(self) -> dict[str, Place]:
        """Where what it writes and had declared lies in the whole tensors."""
        return {
            name: Place(one.global_shape, one.offsets, self.source.tensors[name].spec.shape)
            for name in self.own.values()
            if (one := self.plan.shards.get(name))
        }

    def chunks(self) -> Iterator[memoryview]:
        """The bytes of what goes to the shard. Raises `Damaged` at the end of a slot that is not
        what was sealed: what was given until then must not be published.
        """
        running, own = Running(self.seal), set(self.own.values())
        running.update(self._memory[: len(self.source.head)])
        for name, placed in self.source.tensors.items():
            declared = self.plan.shards.get(name)
            state = xxhash.xxh3_64() if declared and declared.replicas else None
            for at in range(placed.begin, placed.end, CHUNK_BYTES):
                self._go_on()
                chunk = self._memory[at : min(at + CHUNK_BYTES, placed.end)]
                running.update(chunk)
                if state:
                    state.update(chunk)
                if name in own:
                    yield chunk
                self._took(len(chunk))
            if state:
                self.replicas[name] = state.hexdigest()
        if running.hexdigest() != self._known:
            raise _damaged(self.seal)


def _write_shard(store: Store, folder: str, reading: Reading) -> File | None:
    """None where nothing goes to a shard: it is read all the same."""
    source, own = reading.source, reading.own
    if not own:
        for _ in reading.chunks():
            pass
        return None
    target = lay_out(
        {key: source.tensors[name].spec for key, name in own.items()},
        _metadata(own, source, reading.plan),
        in_order=True,
    )
    name = shard_name(reading.seal.rank, reading.seal.world_size)
    state = xxhash.xxh3_64()

    def hashed() -> Iterator[memoryview]:
        for chunk in chain([memoryview(target.head)], reading.chunks()):
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
