"""Claiming a slot and copying tensors into it. Used by the checkpointer in ranks only."""

import ctypes
import logging
import mmap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from threading import Event

import msgspec
import torch

from holdfast.checkpoint import pages
from holdfast.checkpoint.copying import Copy, Part, pieces_of
from holdfast.checkpoint.layout import Layout
from holdfast.checkpoint.pinning import pin
from holdfast.checkpoint.rotation import LEAST, candidates, in_need
from holdfast.checkpoint.slot_folder import SlotFolder
from holdfast.checkpoint.slots import SPARE_BYTES, NoRoom, Slot, free_bytes, no_room
from holdfast.checkpoint.tensors import view

PATIENCE_S = 0.1
"""How long a save waits for the agent to be done with the last free slot before it is refused."""

_POLL_S = 0.005

_LOG = logging.getLogger("holdfast.checkpoint")


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """What a save needs of its rank's slots: a place of so many bytes, and a seal beside it."""

    folder: SlotFolder
    epoch: int
    size_bytes: int
    seal_bytes: int
    store_interval_steps: int

    @contextmanager
    def taken(self) -> Iterator[Slot]:
        """A slot of this size without a seal that nobody reads, locked for the block.

        Raises `NoRoom` where there is none: memory is full, or the agent reads all that may be had.
        """
        with ExitStack() as lock:
            yield self._take_one(lock)

    def _take_one(self, lock: ExitStack) -> Slot:
        waited_s = 0.0
        while True:
            busy, short = False, None
            for slot, others in self._turns():
                try:
                    if self._take(slot, others, lock):
                        return slot
                    busy = True
                except NoRoom as error:
                    short = error
            if not busy or waited_s > PATIENCE_S:
                raise short or NoRoom("the agent still reads every slot that may be overwritten")
            Event().wait(_POLL_S)
            waited_s += _POLL_S

    def _turns(self) -> Iterator[tuple[Slot, list[Slot]]]:
        """Slots to try in turn, each with those that may be emptied to make room for it."""
        ages = {n: seal.age if (seal := s.seal()) else None for n, s in enumerate(self._slots)}
        every, uploaded = self.store_interval_steps, self.folder.uploaded()
        copied = self.folder.copied()
        if copied and self._room_for() <= LEAST:  # else nothing more would ever be saved
            copied = None
        spare = candidates(ages, store_interval_steps=every, uploaded=uploaded, copied=copied)
        for number in spare:
            yield self._slots[number], [self._slots[other] for other in spare if other != number]
        if self._room_for() < LEAST:
            for turn in in_need(
                ages, store_interval_steps=every, uploaded=uploaded, epoch=self.epoch
            ):
                gives = [self._slots[other] for other in (*spare, *turn.gives)]
                yield self._slots[turn.number], gives

    @property
    def _slots(self) -> tuple[Slot, ...]:
        return self.folder.slots

    def _room_for(self) -> int:
        """How many slots of this size there could be, with what the rank has and what is free."""
        own = sum(slot.room_bytes for slot in self._slots)
        return max(0, own + free_bytes(self.folder.folder) - SPARE_BYTES) // self.size_bytes

    def _take(self, slot: Slot, others: Sequence[Slot], lock: ExitStack) -> bool:
        """Lock the slot and have its room; False while another holds it. Raises `NoRoom`."""
        slot.make(0)
        with ExitStack() as mine:
            fd = mine.enter_context(slot.locked(exclusive=True))
            if fd is None:
                return False
            self._make_way(slot, others)
            if slot.unreadable:
                _LOG.warning("%s: its seal is not what was written; it is used anew", slot)
            slot.break_seal()
            slot.grow(fd, self.size_bytes)
            lock.enter_context(mine.pop_all())
        return True

    def _make_way(self, slot: Slot, others: Sequence[Slot]) -> None:
        """Empty of the others as many as it takes; none where all of them would not do."""
        grown = max(0, self.size_bytes - slot.room_bytes)
        wanted = self.seal_bytes + (grown + SPARE_BYTES if grown else 0)
        folder = self.folder.folder
        if wanted > free_bytes(folder) + sum(other.room_bytes for other in others):
            raise no_room(folder, self.size_bytes)
        for other in others:
            if wanted <= free_bytes(folder):
                return
            with other.locked(exclusive=True) as fd:
                if fd is not None:
                    other.break_seal()
                    other.empty(fd)
        if wanted > free_bytes(folder):  # the agent reads one of them
            raise no_room(folder, self.size_bytes)


class Area:
    """A slot's file mapped into the rank, kept so that later saves find its pages there."""

    def __init__(self, slot: Slot) -> None:
        with slot.data.open("r+b") as file:
            self._file = _identity(slot)
            self._memory = mmap.mmap(file.fileno(), 0, mmap.MAP_SHARED)
        pages.enter(self._memory, to_write=True)
        self._head = b""
        self._pieces: list[list[Part]] = []
        self._views: dict[str, torch.Tensor] = {}

    def maps(self, slot: Slot) -> bool:
        """Whether this is still the whole of the slot's file: a slot may grow, or be emptied."""
        return _identity(slot) == self._file

    def prepare(self, layout: Layout) -> None:
        """Write the header, and know where each tensor has its place."""
        # Each time: one that has changed in memory would speak for all that comes after it.
        self._memory[: len(layout.head)] = layout.head
        if self._head != layout.head:
            self._head = layout.head
            data = memoryview(self._memory)
            self._pieces = pieces_of(layout)
            self._views = {
                name: view(data, placed)
                for name, placed in layout.tensors.items()
                if placed.end > placed.begin
            }

    @property
    def place(self) -> tuple[int, int]:
        """Its address and its size in bytes."""
        first = ctypes.c_char.from_buffer(self._memory)
        return ctypes.addressof(first), len(self._memory)

    def put(self, tensors: Mapping[str, torch.Tensor], *, wait: bool = True) -> None:
        """Copy these as torch copies: they are on a device, or lie otherwise than in the slot.

        Without `wait` it is only in the current stream's queue then.
        """
        filled = [name for name in tensors if name in self._views]
        devices = {tensors[name].device for name in filled if tensors[name].is_cuda}
        if devices:
            pin(self, next(iter(devices)))
        if filled:
            with torch.no_grad():
                torch._foreach_copy_(
                    [self._views[name] for name in filled],
                    [tensors[name] for name in filled],
                    non_blocking=not wait,
                )

    def copy(self, tensors: Mapping[str, torch.Tensor]) -> Copy:
        """The copy of these, which are `movable`; to be run once all others are put."""
        filled = {name: one for name, one in tensors.items() if name in self._views}
        return Copy(memoryview(self._memory), self._pieces, filled)

    def views(self, names: Iterable[str]) -> dict[str, torch.Tensor]:
        """What lies at the places of these tensors, but for empty ones."""
        return {name: self._views[name] for name in names if name in self._views}


def _identity(slot: Slot) -> tuple[int, int]:
    info = slot.data.stat()
    return info.st_ino, info.st_size
