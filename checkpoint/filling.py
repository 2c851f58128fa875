"""Claiming a slot and copying tensors into it. Used by the checkpointer in ranks only."""

import mmap
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import Event

import torch

from holdfast.checkpoint.layout import Layout
from holdfast.checkpoint.rotation import candidates
from holdfast.checkpoint.slots import NoRoom, Slot, SlotFolder
from holdfast.checkpoint.tensors import view

PATIENCE_S = 0.1
"""How long a save waits for the agent to be done with the last free slot before it is refused."""

_POLL_S = 0.005


@contextmanager
def claimed(folder: SlotFolder, size_bytes: int, *, store_interval_steps: int) -> Iterator[Slot]:
    """A slot of this size without a seal that nobody reads, locked for the block.

    Raises `NoRoom` where there is none: memory is full, or the agent reads all that may be had.
    """
    waited_s = 0.0
    trouble = NoRoom("the agent still reads every slot that may be overwritten")
    while waited_s <= PATIENCE_S:
        held = {number: slot.seal() for number, slot in enumerate(folder.slots)}
        for number in candidates(
            {number: seal.age if seal else None for number, seal in held.items()},
            store_interval_steps=store_interval_steps,
            drained=folder.drained(),
        ):
            slot = folder.slots[number]
            try:
                slot.make_room(size_bytes, replace=False)
            except NoRoom as error:
                trouble = error
                continue
            with slot.locked(exclusive=True) as fd:
                if fd is not None:
                    slot.break_seal()
                    slot.make_room(size_bytes, replace=True)
                    yield slot
                    return
        Event().wait(_POLL_S)
        waited_s += _POLL_S
    raise trouble


class Area:
    """A slot's file mapped into the rank, kept so that later saves find its pages there."""

    def __init__(self, slot: Slot) -> None:
        with slot.data.open("r+b") as file:
            self._inode = slot.data.stat().st_ino
            self._memory = mmap.mmap(file.fileno(), 0, mmap.MAP_SHARED | mmap.MAP_POPULATE)
        self._head = b""
        self._views: dict[str, torch.Tensor] = {}

    def maps(self, slot: Slot) -> bool:
        """Whether this is still the slot's file: it is another one once it was made larger."""
        return slot.data.stat().st_ino == self._inode

    def fill(self, layout: Layout, tensors: Mapping[str, torch.Tensor]) -> None:
        """Write the header, unless it is there, and copy every tensor to its place."""
        if self._head != layout.head:
            self._memory[: len(layout.head)] = self._head = layout.head
            data = memoryview(self._memory)
            self._views = {
                name: view(data, placed)
                for name, placed in layout.tensors.items()
                if placed.end > placed.begin
            }
        with torch.no_grad():
            torch._foreach_copy_(
                list(self._views.values()), [tensors[name] for name in self._views]
            )
