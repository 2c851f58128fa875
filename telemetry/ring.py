"""The ring file: a rank writes its progress, the daemon reads it, and neither waits for the other.

The writer makes stores into a mapped file: no system call, no lock, no wait. The reader takes what
is whole, keeps the last whole value of a record that a dying writer left half written, and says so.
Must not interpret what it carries.
"""

import array
import math
import mmap
import os
import struct
from collections.abc import Sequence
from pathlib import Path

from holdfast.kit.files import beside
from holdfast.protocol.messages import (
    BadLoss,
    Collective,
    GroupProgress,
    PeerProgress,
    RankProgress,
    Recent,
)
from holdfast.telemetry import schema

READ_TRIES = 8
"""A record is rewritten in about .3 us and a step writes some dozens: eight tries in a row have
failed only where the writer died in the middle."""


_NO_LOSS = math.nan
"""In place of a loss that nobody told; one that was told and is no number has the other sign."""


class RingError(Exception):
    """The file is not a ring that can be read; the message says why."""


def _file_for(path: Path) -> tuple[mmap.mmap, Path]:
    """Mapped, and its name until it is whole. Raises `OSError`, and leaves nothing then."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = beside(path)
    try:
        with new.open("w+b") as file:
            # Room is taken now: a store into a mapped page that finds the disk full is a SIGBUS.
            os.posix_fallocate(file.fileno(), 0, schema.SIZE)
            return mmap.mmap(file.fileno(), schema.SIZE), new
    except OSError:
        new.unlink(missing_ok=True)
        raise


class RingWriter:
    """Makes a ring file and stores into it. One thread at a time for each record.

    Raises `OSError` where the file cannot be made; storing raises nothing. `patient`: without room
    for the file it stores into memory of its own, and `settle` looks for room again.
    """

    def __init__(self, path: Path, *, rank: int, epoch: int, patient: bool = False) -> None:
        self._path = path
        self.lacks: OSError | None = None  # why there is no file yet
        try:
            memory, new = _file_for(path)
        except OSError as error:
            if not patient:
                raise
            memory, new, self.lacks = mmap.mmap(-1, schema.SIZE), None, error
        self._store_into(memory)
        slots = (schema.GROUP_SLOTS, schema.PEER_SLOTS, schema.PHASE_SLOTS, schema.MEMBER_SLOTS)
        head = (schema.MAGIC, schema.VERSION, schema.SIZE, rank, epoch, os.getpid(), *slots)
        schema.HEADER.pack_into(self._map, 0, *head)
        if new is not None:
            new.rename(path)

    def _store_into(self, memory: mmap.mmap) -> None:
        self._map = memory
        self._words = memoryview(memory)[: schema.MEMBERS_AT].cast("Q")
        self._members = memoryview(memory)[schema.MEMBERS_AT : schema.SIZE].cast("I")

    def settle(self) -> bool:
        """Have a file, if there is room by now, with all that was stored so far; True if so.

        What another thread stores in these microseconds may be missing until it is stored again.
        """
        try:
            memory, new = _file_for(self._path)
        except OSError as error:
            self.lacks = error
            return False
        memory[:] = self._map[:]
        self._store_into(memory)
        new.rename(self._path)
        self.lacks = None
        return True

    def word(self, place: int, value: int) -> None:
        """Store one of the rank's words (`schema.PULSE` and so on)."""
        self._words[schema.WORDS_AT // 8 + place] = value

    def number(self, place: int, value: float) -> None:
        """Store a number that is no whole one as a word."""
        self._words[schema.WORDS_AT // 8 + place] = int.from_bytes(
            struct.pack("<d", value), "little"
        )

    def state(
        self,
        step: int,
        tokens: int,
        loss: float | None,
        phase: int,
        clocks_ns: Sequence[int] = (0, 0, 0, 0, 0),
    ) -> None:
        at, words = schema.STATE_AT, self._words
        stamp = words[at // 8] + 1 | 1
        words[at // 8] = stamp
        value = _NO_LOSS if loss is None else -_NO_LOSS if math.isnan(loss) else loss
        schema.STATE.pack_into(self._map, at, stamp, step, tokens, value, phase, *clocks_ns)
        words[at // 8] = stamp + 1

    def group(self, slot: int, *fields: int) -> None:
        """Store a GROUP record: its fields after the sequence, in the order of the schema."""
        at, words = schema.GROUPS_AT + slot * schema.GROUP.size, self._words
        stamp = words[at // 8] + 1 | 1
        words[at // 8] = stamp
        schema.GROUP.pack_into(self._map, at, stamp, *fields)
        words[at // 8] = stamp + 1

    def collective(self, slot: int, number: int, kind: int, fingerprint: int) -> None:
        """Store one of a group's recent collectives: no reader takes half of it for one."""
        at, words = schema.RECENT_AT // 8 + _recent_place(slot, number), self._words
        words[at] = 0
        words[at + 1] = fingerprint
        words[at] = number << schema.KIND_BITS | kind

    def brought(self, slot: int, number: int, *, bad_step: int | None) -> None:
        """Store whether the rank brought numbers into its group's collective `number`; where it did
        not, and did before, in which step."""
        at, words = schema.LOOKS_AT // 8 + slot * schema.LOOK_WORDS, self._words
        if bad_step is None:
            words[at + 1] = 0
            words[at] = number
        elif not words[at + 1]:
            words[at + 2] = bad_step
            words[at + 1] = number

    def frame(self, stack: int, where: bytes) -> None:
        """Store where the main thread stands: a hash of its stack, and its line as text."""
        at, words = schema.FRAME_AT, self._words
        stamp = words[at // 8] + 1 | 1
        words[at // 8] = stamp
        schema.FRAME.pack_into(self._map, at, stamp, stack, where[: schema.FRAME_TEXT_BYTES])
        words[at // 8] = stamp + 1

    def done(self, slot: int, count: int) -> None:
        self._words[schema.DONE_AT // 8 + slot] = count

    def peer(self, slot: int, field: int, value: int) -> None:
        """Store word `field` of a peer: 0 who it is, 1..4 sends, done, receives, done."""
        self._words[schema.PEERS_AT // 8 + slot * schema.PEER_WORDS + field] = value

    def phase_name(self, slot: int, name: str) -> None:
        at = schema.PHASES_AT + slot * schema.PHASE_BYTES
        data = name.encode(errors="replace")[: schema.PHASE_NAME_BYTES]
        self._map[at : at + schema.PHASE_NAME_BYTES] = data.ljust(schema.PHASE_NAME_BYTES, b"\0")

    def phase(self, slot: int, wall_ns: int, thread_ns: int) -> None:
        at = schema.PHASES_AT + slot * schema.PHASE_BYTES + schema.PHASE_NAME_BYTES
        self._words[at // 8] = wall_ns
        self._words[at // 8 + 1] = thread_ns

    def members(self, first: int, ranks: Sequence[int]) -> None:
        """Store the ranks of a group, once, before its record names them."""
        self._members[first : first + len(ranks)] = memoryview(array.array("I", ranks))


def _recent_place(slot: int, number: int) -> int:
    return (slot * schema.RECENT + number % schema.RECENT) * schema.RECENT_WORDS


def _at_once(path: str, flags: int) -> int:
    """Opens what may be a pipe that nobody writes to without waiting for it."""
    return os.open(path, flags | os.O_NONBLOCK)


def _kind(number: int) -> str:
    return schema.KINDS[number] if number < len(schema.KINDS) else schema.KINDS[0]


class RingReader:
    """Reads a ring file that a live, dead or dying rank writes.

    Raises `RingError` for a file that is no ring, is cut short, or has another version, and later
    for one that says what no writer does; `OSError` where it cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self._name = path.name
        with open(path, "rb", opener=_at_once) as file:
            size = os.fstat(file.fileno()).st_size
            if size < schema.HEADER.size:
                raise RingError(f"{path.name}: cut short, {size} bytes are less than a header")
            self._map = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ)
        magic, version, whole, rank, epoch, pid, *_ = schema.HEADER.unpack_from(self._map)
        self.rank, self.epoch, self.pid = rank, epoch, pid
        if magic != schema.MAGIC:
            raise RingError(f"{path.name}: not a ring, it starts with {magic!r}")
        if version != schema.VERSION:
            age = "a newer" if version > schema.VERSION else "an older"
            raise RingError(
                f"{path.name}: written by {age} Holdfast, ring version {version}; "
                f"this one reads version {schema.VERSION}"
            )
        if size < (needed := max(whole, schema.SIZE)):
            raise RingError(f"{path.name}: cut short, {size} of {needed} bytes")
        self._words = memoryview(self._map)[: schema.MEMBERS_AT].cast("Q")
        self._whole: dict[int, bytes] = {}
        self._ranks: dict[int, tuple[int, ...]] = {}
        self._phases: dict[int, str] = {}
        self.torn = 0
        """Records of the last `read` that were not whole; their last whole value was used."""

    def close(self) -> None:
        self._words.release()
        self._map.close()

    def pulse(self) -> int:
        """A number that the rank's own thread moves some times a second."""
        return self._word(schema.PULSE)

    def stack(self) -> int:
        """A number that differs where the main thread's stack does; 0: it is not known."""
        return int(schema.FRAME.unpack(self._record(schema.FRAME_AT, schema.FRAME.size))[1])

    def starts_s(self) -> dict[str, float]:
        """When each of `schema.STARTS` was over, in seconds of this machine's monotonic clock."""
        words = [self._word(schema.STARTED_AT + at) for at in range(len(schema.STARTS))]
        return {name: at / 1e9 for name, at in zip(schema.STARTS, words, strict=True) if at}

    def recent(self) -> tuple[Recent, ...]:
        """The last collectives of each group, as far as they can be read now."""
        groups = self._below(schema.GROUP_SLOTS, self._word(schema.GROUPS), "groups")
        told = (
            Recent(members=self._group(slot).members, collectives=self._recent(slot))
            for slot in range(groups)
        )
        return tuple(each for each in told if each.collectives)

    def _recent(self, slot: int) -> tuple[Collective, ...]:
        first = schema.RECENT_AT // 8 + _recent_place(slot, 0)
        found = []
        for at in range(first, first + schema.RECENT * schema.RECENT_WORDS, schema.RECENT_WORDS):
            said, fingerprint = self._words[at], self._words[at + 1]
            if said and said == self._words[at]:  # else it is being written
                number, kind = said >> schema.KIND_BITS, said & (1 << schema.KIND_BITS) - 1
                found.append(Collective(number, _kind(kind), fingerprint))
        return tuple(sorted(found))

    def read(self) -> RankProgress:
        """The rank's progress now; what only the daemon can see is left at its default."""
        self.torn = 0
        if (size := self._map.size()) < schema.SIZE:  # of the file, now: to read on is a SIGBUS
            raise RingError(f"{self._name}: cut short, {size} of {schema.SIZE} bytes")
        _, step, tokens, loss, phase, *clocks_ns, gpu_step = schema.STATE.unpack(
            self._record(schema.STATE_AT, schema.STATE.size)
        )
        phases = self._below(schema.PHASE_SLOTS, self._word(schema.PHASES), "phases")
        groups = self._below(schema.GROUP_SLOTS, self._word(schema.GROUPS), "groups")
        peers = self._below(schema.PEER_SLOTS, self._word(schema.PEERS), "peers")
        phase = self._below(schema.PHASE_SLOTS, phase, "phase")
        clocks = [self._phase(slot) for slot in range(phases)]
        stepped_s, ran_s, waited_s, paused_s = (each / 1e9 for each in clocks_ns)
        return RankProgress(
            rank=self.rank,
            epoch=self.epoch,
            pid=self.pid,
            step=step,
            tokens=tokens,
            loss=None if math.isnan(loss) and math.copysign(1, loss) > 0 else loss,
            bad_loss=self._bad_loss(),
            grad_norm=self._number(schema.GRAD_NORM) or None,
            phase=self._phase_name(phase - 1) if phase else "",
            groups=tuple(self._group(slot) for slot in range(groups)),
            peers=tuple(self._peer(slot) for slot in range(peers)),
            waiting=bool(self._word(schema.WAITING)),
            partial=self._partial(),
            hooks=True,
            frame=self._frame(),
            pause=schema.PAUSES[min(self._word(schema.PAUSE), len(schema.PAUSES) - 1)],
            call=schema.CALLS[min(self._word(schema.CALL), len(schema.CALLS) - 1)],
            sleep_s=self._word(schema.SLEEP_MS) / 1e3,
            sleep_left_s=self._word(schema.SLEEP_LEFT_MS) / 1e3,
            unsaved=max(0, step - self._word(schema.SAVED_AT)),
            wall_s={name: wall_ns / 1e9 for name, wall_ns, _ in clocks},
            thread_s={name: thread_ns / 1e9 for name, _, thread_ns in clocks},
            stepped_s=stepped_s,
            ran_s=ran_s,
            waited_s=waited_s,
            paused_s=paused_s,
            garbage_s=self._word(schema.GARBAGE) / 1e9,
            gpu_step=gpu_step,
        )

    def _bad_loss(self) -> BadLoss | None:
        if not (told := self._word(schema.LOSS_BADS)):
            return None
        return BadLoss(
            told=told,
            since=self._word(schema.LOSS_SINCE),
            last=self._word(schema.LOSS_LAST),
            good=self._word(schema.LOSS_GOOD),
            goods=self._word(schema.LOSS_GOODS),
        )

    def _number(self, place: int) -> float:
        return float(struct.unpack("<d", self._word(place).to_bytes(8, "little"))[0])

    def _below(self, slots: int, said: int, what: str) -> int:
        if said > slots:
            raise RingError(f"{self._name}: it says {said} {what}, and there are {slots} slots")
        return said

    def _frame(self) -> str:
        text = schema.FRAME.unpack(self._record(schema.FRAME_AT, schema.FRAME.size))[2]
        shown = bytes(text).rstrip(b"\0").decode(errors="ignore")
        return "".join(letter if letter.isprintable() else "?" for letter in shown)

    def _word(self, place: int) -> int:
        return self._words[schema.WORDS_AT // 8 + place]

    def _record(self, at: int, size: int) -> bytes:
        """The record at `at`, whole: stored, re-read, and the same before and after."""
        for _ in range(READ_TRIES):
            before = self._words[at // 8]
            data = self._map[at : at + size]
            if before % 2 == 0 and self._words[at // 8] == before:
                self._whole[at] = data
                return data
        self.torn += 1
        return self._whole.get(at, bytes(size))

    def _group(self, slot: int) -> GroupProgress:
        at = schema.GROUPS_AT + slot * schema.GROUP.size
        # `done` first: read after the record it could be ahead of `enqueued`.
        done = self._words[schema.DONE_AT // 8 + slot]
        _, members, kind, fingerprint, enqueued, step, first, count, *marks = schema.GROUP.unpack(
            self._record(at, schema.GROUP.size)
        )
        if slot not in self._ranks and count:
            self._below(schema.MEMBER_SLOTS, first + count, "member ranks")
            at = schema.MEMBERS_AT + 4 * first
            self._ranks[slot] = tuple(memoryview(self._map[at : at + 4 * count]).cast("I"))
        pairs = sorted(set(zip(marks[::2], marks[1::2], strict=True)))
        good, bad, bad_step = self._looks(slot)
        return GroupProgress(
            members=members,
            kind=_kind(kind),
            enqueued=enqueued,
            done=done,
            fingerprint=fingerprint,
            step=step,
            ranks=self._ranks.get(slot, ()),
            marks=tuple((at_step, count) for at_step, count in pairs if at_step),
            good=good,
            bad=bad,
            bad_step=bad_step if bad else 0,
        )

    def _looks(self, slot: int) -> tuple[int, int, int]:
        first = schema.LOOKS_AT // 8 + slot * schema.LOOK_WORDS
        good, bad, bad_step = self._words[first : first + schema.LOOK_WORDS]
        return good, bad, bad_step

    def _peer(self, slot: int) -> PeerProgress:
        first = schema.PEERS_AT // 8 + slot * schema.PEER_WORDS
        peer, sends, sends_done, receives, receives_done = self._words[
            first : first + schema.PEER_WORDS
        ]
        return PeerProgress(
            peer=peer,
            sends=sends,
            sends_done=sends_done,
            receives=receives,
            receives_done=receives_done,
        )

    def _phase_name(self, slot: int) -> str:
        at = schema.PHASES_AT + slot * schema.PHASE_BYTES
        if slot not in self._phases:
            data = self._map[at : at + schema.PHASE_NAME_BYTES]
            self._phases[slot] = data.rstrip(b"\0").decode(errors="replace")
        return self._phases[slot]

    def _phase(self, slot: int) -> tuple[str, int, int]:
        at = schema.PHASES_AT + slot * schema.PHASE_BYTES + schema.PHASE_NAME_BYTES
        return self._phase_name(slot), self._words[at // 8], self._words[at // 8 + 1]

    def _partial(self) -> tuple[str, ...]:
        bits = self._word(schema.PARTIAL)
        return tuple(part for bit, part in enumerate(schema.PARTS) if bits >> bit & 1)
