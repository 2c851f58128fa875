"""The bytes of a rank's state, read once for all that has to be known of them. Used by `shards`.

Must not load torch, nor copy a slot: its memory is handed on as it lies.
"""

from collections.abc import Callable, Iterable, Iterator

import msgspec
import xxhash

from holdfast.checkpoint.coverage import Place
from holdfast.checkpoint.digest import CHUNK_BYTES, Running
from holdfast.checkpoint.layout import PLAN_KEY, Layout, ShardPlan, key_in_store, parse_head
from holdfast.checkpoint.stores import Buffer
from holdfast.checkpoint.words import Seal

Checked = Callable[[], None]
"""Called between chunks; raises where the writing is to be given up."""

Took = Callable[[int], None]
"""Told of so many bytes that are done with; may rest."""

BytesOf = Callable[[str], Iterable[Buffer]]
"""The bytes of a tensor, by its name."""


class Damaged(Exception):
    """The slot is not what was sealed: its memory has changed since."""


class Reading:
    """What lies as `source` says, once, in its order.

    `own`: what goes to this rank's shard, by its key there. `replicas`: XXH3 of what others have,
    too; known once all is read.
    """

    def __init__(self, seal: Seal, source: Layout, bytes_of: BytesOf) -> None:
        self.seal = seal
        self.source = source
        self.plan = msgspec.json.decode(source.metadata[PLAN_KEY], type=ShardPlan)
        self.replicas: dict[str, str] = {}
        self.own = {
            key_in_store(name, seal.rank, declared=name in self.plan.shards): name
            for name in source.tensors
            if name not in self.plan.elsewhere
        }
        self._bytes_of = bytes_of

    def places(self) -> dict[str, Place]:
        """Where what it writes and had declared lies in the whole tensors."""
        return {
            name: Place(one.global_shape, one.offsets, self.source.tensors[name].spec.shape)
            for name in self.own.values()
            if (one := self.plan.shards.get(name))
        }

    def chunks(self) -> Iterator[Buffer]:
        """The bytes of what goes to the shard."""
        own = set(self.own.values())
        for name in self.source.tensors:
            declared = self.plan.shards.get(name)
            state = xxhash.xxh3_64() if declared and declared.shared else None
            for chunk in self._bytes_of(name):
                if state:
                    state.update(chunk)
                if name in own:
                    yield chunk
            if state:
                self.replicas[name] = state.hexdigest()


class SlotReading(Reading):
    """A slot, whose checksum is taken on the way: `known` is what it has to be."""

    def __init__(
        self, memory: memoryview, seal: Seal, known: str | None, go_on: Checked, took: Took
    ) -> None:
        super().__init__(seal, parse_head(memory), self._pieces)
        self._memory = memory
        self._known = known
        self._go_on = go_on
        self._took = took
        self._running = Running(seal)

    def chunks(self) -> Iterator[Buffer]:
        """Raises `Damaged` at the end of a slot that is not what was sealed: what was given until
        then must not be published.
        """
        self._running = Running(self.seal)
        self._running.update(self._memory[: len(self.source.head)])
        yield from super().chunks()
        if self._running.hexdigest() != self._known:
            raise damaged(self.seal)

    def _pieces(self, name: str) -> Iterator[memoryview]:
        placed = self.source.tensors[name]
        for at in range(placed.begin, placed.end, CHUNK_BYTES):
            self._go_on()
            chunk = self._memory[at : min(at + CHUNK_BYTES, placed.end)]
            self._running.update(chunk)
            yield chunk
            self._took(len(chunk))


def damaged(seal: Seal) -> Damaged:
    """The error, with whose it is."""
    return Damaged(f"rank {seal.rank}, step {seal.step}: the memory slot has changed")
