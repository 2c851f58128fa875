"""The file of spans: a rank writes, its daemon reads, and neither waits for the other.

A span costs one `pack_into` and two stores: no system call, no lock. What the daemon does not read
in time is overwritten, and counted as lost.
"""

import mmap
import os
from itertools import count
from pathlib import Path
from typing import NamedTuple

from holdfast.kit.files import beside
from holdfast.protocol.spans import KINDS
from holdfast.telemetry.ring import READ_TRIES, RingError
from holdfast.telemetry.trace import schema

_MASK = 0xFFFF_FFFF
_PACK, _SPAN_SIZE = schema.SPAN.pack_into, schema.SPAN.size
_SPANS_AT, _SLOTS, _HEAD_AT = schema.SPANS_AT, schema.SLOTS, schema.WORDS_AT // 8 + schema.HEAD


class Raw(NamedTuple):
    """A span on the clock of its machine, in nanoseconds. `number`: of a collective, in its group.
    `ended` is False where it was under way when it was last seen."""

    kind: str
    name: str
    group: int
    number: int
    step: int
    began_ns: int
    took_ns: int
    waited_ns: int
    ended: bool = True


class SpanWriter:
    """Makes the file and stores into it. Raises `OSError` where it cannot be made; storing raises
    nothing."""

    def __init__(self, path: Path, *, rank: int, epoch: int) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        new = beside(path)
        with new.open("w+b") as file:
            # Room is taken now: a store into a mapped page that finds the disk full is a SIGBUS.
            os.posix_fallocate(file.fileno(), 0, schema.SIZE)
            self._map = mmap.mmap(file.fileno(), schema.SIZE)
        head = (schema.MAGIC, schema.VERSION, schema.SIZE, rank, epoch, os.getpid())
        schema.HEADER.pack_into(self._map, 0, *head, schema.SLOTS, schema.NAME_SLOTS)
        self._words = memoryview(self._map).cast("Q")
        self._numbers = count(1)  # one at a time, whichever thread asks
        self._names: dict[str, int] = {"": 0}
        self._words[schema.WORDS_AT // 8 + schema.NAMES] = 1
        new.rename(path)

    def name(self, text: str) -> int:
        """Its number; 0, which is no name, once the table is full."""
        found = self._names.get(text)
        if found is not None:
            return found
        number = len(self._names)
        if number == schema.NAME_SLOTS:
            return 0
        at = schema.NAMES_AT + number * schema.NAME_BYTES
        data = text.encode(errors="replace")[: schema.NAME_BYTES]
        self._map[at : at + schema.NAME_BYTES] = data.ljust(schema.NAME_BYTES, b"\0")
        self._names[text] = number
        self._words[schema.WORDS_AT // 8 + schema.NAMES] = number + 1
        return number

    def span(
        self,
        kind: int,
        name: int,
        began_ns: int,
        took_ns: int,
        waited_ns: int,
        step: int,
        group: int = 0,
        number: int = 0,
    ) -> None:
        """Store one that has ended."""
        written = next(self._numbers)
        at = _SPANS_AT + (written - 1) % _SLOTS * _SPAN_SIZE
        _PACK(
            self._map, at, 0, began_ns, took_ns, waited_ns, group, step & _MASK, number & _MASK,
            kind, name, 0,
        )  # fmt: skip
        words = self._words
        words[at >> 3] = written
        words[_HEAD_AT] = written

    def opens(self, now_ns: int, spans: list[tuple[int, int, int, int, int, int, int]]) -> None:
        """Store those under way, each as OPEN has it, and that the rank was alive at `now_ns`. One
        thread calls this."""
        words, at = self._words, schema.OPEN_AT
        stamp = words[at // 8] + 1 | 1
        shown = spans[: schema.OPEN_SLOTS]
        schema.OPENS.pack_into(self._map, at, stamp, len(shown))
        for place, (began_ns, waited_ns, group, step, number, kind, name) in enumerate(shown):
            fields = (began_ns, waited_ns, group, step & _MASK, number & _MASK, kind, name, 0)
            schema.OPEN.pack_into(
                self._map, at + schema.OPENS.size + place * schema.OPEN.size, *fields
            )
        words[at // 8] = stamp + 1
        words[schema.WORDS_AT // 8 + schema.PULSED_NS] = now_ns


class SpanReader:
    """Reads what is new. `dropped`: spans that were overwritten before they were read.

    Raises `RingError` where the file is none of this version, and `OSError`.
    """

    def __init__(self, path: Path) -> None:
        self._name = path.name
        with path.open("rb") as file:
            try:
                self._map = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
            except ValueError as error:
                raise RingError(f"{self._name}: an empty file is no ring of spans") from error
        try:
            self._check()
        except RingError:
            self._map.close()
            raise
        self._view = memoryview(self._map)
        self._words = self._view[: schema.SIZE].cast("Q")
        self._next, self.dropped = 0, 0
        self._names: list[str] = []
        self._opens: bytes = bytes(schema.OPEN_SIZE)

    def _check(self) -> None:
        if len(self._map) < schema.HEADER.size or self._map[:8] != schema.MAGIC:
            raise RingError(f"{self._name}: it is no ring of spans")
        _, version, size, self.rank, self.epoch, self.pid, slots, names = schema.HEADER.unpack_from(
            self._map, 0
        )
        if version != schema.VERSION:
            raise RingError(
                f"{self._name}: spans of version {version}, and this daemon reads "
                f"{schema.VERSION}; traces of its rank are not kept"
            )
        if (size, slots, names) != (schema.SIZE, schema.SLOTS, schema.NAME_SLOTS):
            raise RingError(f"{self._name}: {slots} slots and {names} names are not this version's")
        if len(self._map) < size:
            raise RingError(f"{self._name}: cut short, {len(self._map)} of {size} bytes")

    def close(self) -> None:
        self._words.release()
        self._view.release()
        self._map.close()

    def skip(self) -> None:
        """Begin with what comes from now on: an earlier reader has had what is there."""
        self._next = self._words[schema.WORDS_AT // 8 + schema.HEAD]

    @property
    def pulsed_ns(self) -> int:
        """When its rank was last alive; 0: it has not said so yet."""
        return self._words[schema.WORDS_AT // 8 + schema.PULSED_NS]

    def read(self, *, last: bool = False) -> list[Raw]:
        """Spans that ended since the last call. `last`: the writer is gone."""
        if (size := self._map.size()) < schema.SIZE:  # of the file, now: to read on is a SIGBUS
            raise RingError(f"{self._name}: cut short, {size} of {schema.SIZE} bytes")
        head = self._words[schema.WORDS_AT // 8 + schema.HEAD]
        if head - self._next > schema.SLOTS:
            self.dropped += head - schema.SLOTS - self._next
            self._next = head - schema.SLOTS
        found: list[Raw] = []
        while self._next < head:
            at = schema.SPANS_AT + self._next % schema.SLOTS * schema.SPAN.size
            wanted, there = self._next + 1, self._words[at // 8]
            data = self._map[at : at + schema.SPAN.size]
            if there < wanted and not last:
                break  # another thread of the rank is about to write it
            if there == wanted == self._words[at // 8]:
                found.append(self._raw(data))
            else:
                self.dropped += 1
            self._next += 1
        return found

    def _raw(self, data: bytes) -> Raw:
        _, began, took, waited, group, step, number, kind, name, _ = schema.SPAN.unpack(data)
        return Raw(_kind(kind), self._named(name), group, number, step, began, took, waited)

    def opens(self) -> list[Raw]:
        """Those under way when the rank last said so. They have taken no time: see `pulsed_ns`."""
        data = self._whole()
        _, many = schema.OPENS.unpack_from(data)
        found = []
        for place in range(min(many, schema.OPEN_SLOTS)):
            began, waited, group, step, number, kind, name, _ = schema.OPEN.unpack_from(
                data, schema.OPENS.size + place * schema.OPEN.size
            )
            named = _kind(kind), self._named(name)
            found.append(Raw(*named, group, number, step, began, 0, waited, ended=False))
        return found

    def _whole(self) -> bytes:
        at = schema.OPEN_AT
        for _ in range(READ_TRIES):
            before = self._words[at // 8]
            data = self._map[at : at + schema.OPEN_SIZE]
            if before % 2 == 0 and self._words[at // 8] == before:
                self._opens = data
                break
        return self._opens

    def _named(self, number: int) -> str:
        while len(self._names) <= number < schema.NAME_SLOTS:
            at = schema.NAMES_AT + len(self._names) * schema.NAME_BYTES
            text = self._map[at : at + schema.NAME_BYTES].rstrip(b"\0").decode(errors="replace")
            if len(self._names) and not text:
                return ""  # it is being written
            self._names.append("".join(each if each.isprintable() else "?" for each in text))
        return self._names[number] if number < len(self._names) else ""


def _kind(number: int) -> str:
    return KINDS[number] if number < len(KINDS) else KINDS[-1]
