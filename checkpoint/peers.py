"""Copies of snapshots in the memory of another node: how they are sent, had back and received.

Used by agents (`peer_sender`, `peer_host`), and by a rank that restores what its own node lacks. A
connection a snapshot: one line of JSON each way, and the bytes. What comes is believed only with
its checksum. It is not encrypted, as what ranks send each other is not. Must not load torch.
"""

import hashlib
import socket
from collections.abc import Callable
from typing import IO

import msgspec

from holdfast.checkpoint.digest import CHUNK_BYTES, Running
from holdfast.checkpoint.slot_folder import SlotFolder
from holdfast.checkpoint.slots import NoRoom, Slot, mapped
from holdfast.checkpoint.words import Seal
from holdfast.protocol.messages import Peer

TIMEOUT_S = 30.0
"""Without a byte; the other node is gone, or its network is."""

KEPT = 3
"""Slots of a copy: two that are whole, and the one that is coming."""

LONGEST_LINE = 64 << 20
"""A seal has the structure of the state."""


class Refused(Exception):
    """The other node did not take or give it; the message says why."""


class Ask(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Take this snapshot, which follows, or with `wants` give that of this rank, step and epoch.

    `whole`: (epoch, step) of the newest that is there of all ranks of the node that sends.
    """

    key: str
    job: str
    rank: int
    wants: tuple[int, int] | None = None
    seal: Seal | None = None
    xxh3: str = ""
    whole: tuple[int, int] | None = None


class Answer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`why` it is refused; or, of one that was wanted, what follows."""

    why: str = ""
    seal: Seal | None = None
    xxh3: str = ""


ASK, _ANSWER = msgspec.json.Decoder(Ask), msgspec.json.Decoder(Answer)


def key_of(store_url: str) -> str:
    """What nodes of one life of a job know: its folder in the store has 64 random bits."""
    return hashlib.sha256(store_url.encode()).hexdigest()


def send(
    peer: Peer,
    key: str,
    slot: Slot,
    seal: Seal,
    fd: int,
    *,
    took: Callable[[int], None],
    whole: tuple[int, int] | None = None,
) -> None:
    """Have a copy of it there. The caller holds the slot's lock. Raises `Refused`, `OSError`."""
    xxh3 = slot.known_sum(seal)
    if xxh3 is None or not slot.is_known(fd, seal):
        raise Refused(f"step {seal.step} in memory has changed since it was sealed")
    ask = Ask(key=key, job=seal.job, rank=seal.rank, seal=seal, xxh3=xxh3, whole=whole)
    with _connected(peer) as (link, file):
        link.sendall(msgspec.json.encode(ask) + b"\n")
        _answer(file)  # it has room
        with mapped(fd, writable=False) as memory:
            give(link, memory, seal, took)
        _answer(file)  # it has it


def fetch(peer: Peer, key: str, folder: SlotFolder, wanted: tuple[str, int, int, int]) -> None:
    """Have here what is there: of a job, rank, step and epoch. Raises as `send`, and `NoRoom`."""
    job, rank, step, epoch = wanted
    with _connected(peer) as (link, file):
        ask = Ask(key=key, job=job, rank=rank, wants=(epoch, step))
        link.sendall(msgspec.json.encode(ask) + b"\n")
        answer = _answer(file)
        seal = answer.seal
        if seal is None or (seal.job, seal.rank, seal.step, seal.epoch) != wanted:
            raise Refused("it gave another snapshot")
        receive(file, folder, seal, answer.xxh3)


class _connected:  # noqa: N801 - reads as a function where it is used
    def __init__(self, peer: Peer) -> None:
        self._link = socket.create_connection((peer.address, peer.port), timeout=TIMEOUT_S)
        self._file = self._link.makefile("rb")

    def __enter__(self) -> tuple[socket.socket, IO[bytes]]:
        return self._link, self._file

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self._link.close()


def _answer(file: IO[bytes]) -> Answer:
    text = file.readline(LONGEST_LINE)
    try:
        answer = _ANSWER.decode(text)
    except msgspec.DecodeError as error:
        why = f"it said something else: {error}" if text else "it has ended the connection"
        raise Refused(why) from error
    if answer.why:
        raise Refused(answer.why)
    return answer


def give(link: socket.socket, memory: memoryview, seal: Seal, took: Callable[[int], None]) -> None:
    """Send the bytes; `took` is told of them."""
    for at in range(0, seal.used_bytes, CHUNK_BYTES):
        chunk = memory[at : min(at + CHUNK_BYTES, seal.used_bytes)]
        link.sendall(chunk)
        took(len(chunk))


def _nothing() -> None:
    """It comes without being asked for."""


def receive(
    file: IO[bytes],
    folder: SlotFolder,
    seal: Seal,
    xxh3: str,
    *,
    whole: tuple[int, int] | None = None,
    ready: Callable[[], None] = _nothing,
) -> None:
    """Put what comes, once `ready` was called, in the place of the oldest. Raises `Refused`,
    `NoRoom`, `OSError`.
    """
    why: Exception = Refused("every slot of the copy is in use")
    for slot in _turns(folder, seal, whole):
        slot.make(0)
        with slot.locked(exclusive=True) as fd:
            if fd is None:
                continue
            try:
                slot.grow(fd, seal.used_bytes)
            except NoRoom as error:
                why = error
                continue
            slot.break_seal()
            ready()
            with mapped(fd, writable=True) as memory:
                if _taken(file, memory, seal) != xxh3:
                    raise Refused("its checksum does not match")
            slot.put_seal(seal, xxh3)
            return
    raise why


def _turns(folder: SlotFolder, seal: Seal, whole: tuple[int, int] | None) -> list[Slot]:
    """The slots to try: that of the same snapshot, which comes again, then the older before the
    newer. Of what is `whole` other ranks may have no later one.
    """
    held = {slot: found.age if (found := slot.seal()) else (-1, -1) for slot in folder.slots[:KEPT]}
    free = [slot for slot, age in held.items() if age != whole or age == seal.age]
    return sorted(free, key=lambda slot: (held[slot] != seal.age, held[slot]))


def _taken(file: IO[bytes], memory: memoryview, seal: Seal) -> str:
    running = Running(seal)
    for at in range(0, seal.used_bytes, CHUNK_BYTES):
        piece = memory[at : min(at + CHUNK_BYTES, seal.used_bytes)]
        got = 0
        while got < len(piece):
            more = file.readinto(piece[got:])  # type: ignore[attr-defined]
            if not more:
                raise Refused("it ended in the middle")
            got += more
        running.update(piece)
    return running.hexdigest()
