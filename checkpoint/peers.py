"""Copies of snapshots in the memory of another node: sent by its agent, kept and given by the
other's.

Used by agents, and by a rank that restores what its own node lacks. A connection a snapshot: one
line of JSON each way, and the bytes. What comes is believed only with its checksum. It is not
encrypted, as what ranks send each other is not. Must not load torch.
"""

import hashlib
import hmac
import socket
import socketserver
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread
from typing import IO, cast

import msgspec

from holdfast.checkpoint.agent_protocol import AgentOrder
from holdfast.checkpoint.digest import CHUNK_BYTES, Running
from holdfast.checkpoint.pace import Pace
from holdfast.checkpoint.rotation import due
from holdfast.checkpoint.slots import NoRoom, Slot, SlotFolder, mapped
from holdfast.checkpoint.words import Seal
from holdfast.kit.logs import LazyLogger
from holdfast.protocol.messages import Peer

TIMEOUT_S = 30.0
"""Without a byte; the other node is gone, or its network is."""

KEPT = 3
"""Slots of a copy: two that are whole, and the one that is coming."""

LONGEST_LINE = 64 << 20
"""A seal has the structure of the state."""

RETRY_S = 2.0


_log = LazyLogger()


class Refused(Exception):
    """The other node did not take or give it; the message says why."""


class Ask(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Take this snapshot, which follows, or with `wants` give that of this rank, step and epoch."""

    key: str
    job: str
    rank: int
    wants: tuple[int, int] | None = None
    seal: Seal | None = None
    xxh3: str = ""


class Answer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`why` it is refused; or, of one that was wanted, what follows."""

    why: str = ""
    seal: Seal | None = None
    xxh3: str = ""


_ASK, _ANSWER = msgspec.json.Decoder(Ask), msgspec.json.Decoder(Answer)


def key_of(store_url: str) -> str:
    """What nodes of one life of a job know: its folder in the store has 64 random bits."""
    return hashlib.sha256(store_url.encode()).hexdigest()


# ---------------------------------------------------------------- asking


def send(
    peer: Peer, key: str, slot: Slot, seal: Seal, fd: int, took: Callable[[int], None]
) -> None:
    """Have a copy of it there. The caller holds the slot's lock. Raises `Refused`, `OSError`."""
    xxh3 = slot.known_sum(seal)
    if xxh3 is None or not slot.is_known(fd, seal):
        raise Refused(f"step {seal.step} in memory has changed since it was sealed")
    ask = Ask(key=key, job=seal.job, rank=seal.rank, seal=seal, xxh3=xxh3)
    with _connected(peer) as (link, file):
        link.sendall(msgspec.json.encode(ask) + b"\n")
        _answer(file)  # it has room
        with mapped(fd, writable=False) as memory:
            _give(link, memory, seal, took)
        _answer(file)  # it has it


def fetch(peer: Peer, key: str, folder: SlotFolder, wanted: tuple[str, int, int, int]) -> None:
    """Have here what is there: of a job, rank, step and epoch. Raises as `send`, and `NoRoom`."""
    job, rank, step, epoch = wanted
    with _connected(peer) as (link, file):
        ask = Ask(key=key, job=job, rank=rank, wants=(epoch, step))
        link.sendall(msgspec.json.encode(ask) + b"\n")
        answer = _answer(file)
        if answer.seal is None or answer.seal.age != (epoch, step):
            raise Refused("it gave another snapshot")
        receive(file, folder, answer.seal, answer.xxh3)


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
        raise Refused("it has ended the connection" if not text else str(error)) from error
    if answer.why:
        raise Refused(answer.why)
    return answer


def _give(link: socket.socket, memory: memoryview, seal: Seal, took: Callable[[int], None]) -> None:
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
    ready: Callable[[], None] = _nothing,
) -> None:
    """Put what comes, once `ready` was called, into the oldest slot. Raises `Refused`, `NoRoom`,
    `OSError`.
    """
    for slot in sorted(folder.slots[:KEPT], key=_age):
        slot.make(0)
        with slot.locked(exclusive=True) as fd:
            if fd is None:
                continue
            slot.break_seal()
            slot.grow(fd, seal.used_bytes)
            ready()
            with mapped(fd, writable=True) as memory:
                if _taken(file, memory, seal) != xxh3:
                    raise Refused("its checksum does not match")
            slot.put_seal(seal, xxh3)
            return
    raise Refused("every slot of the copy is in use")


def _age(slot: Slot) -> tuple[int, int]:
    seal = slot.seal()
    return seal.age if seal else (-1, -1)


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


# ---------------------------------------------------------------- answering


class Host:
    """Takes copies of other nodes' ranks for the job of the order, and gives them back."""

    def __init__(self, address: str) -> None:
        host = self

        class Handler(socketserver.StreamRequestHandler):
            timeout = TIMEOUT_S

            def handle(self) -> None:
                host._handle(self.connection, cast(IO[bytes], self.rfile))

        self._order: AgentOrder | None = None
        self._server = socketserver.ThreadingTCPServer((address, 0), Handler)
        self._server.daemon_threads = True
        self.port = int(self._server.server_address[1])
        Thread(target=self._server.serve_forever, name="peers", daemon=True).start()

    def give(self, order: AgentOrder) -> None:
        self._order = order

    def _handle(self, link: socket.socket, file: IO[bytes]) -> None:
        try:
            self._do(link, _ASK.decode(file.readline(LONGEST_LINE)), file)
        except (Refused, NoRoom, msgspec.DecodeError) as reason:
            with suppress(OSError):
                link.sendall(msgspec.json.encode(Answer(why=str(reason))) + b"\n")
        except OSError as error:  # whoever asked sees the same, and says it
            _log.info("a connection for copies ended", why=str(error))

    def _do(self, link: socket.socket, ask: Ask, file: IO[bytes]) -> None:
        folder = self._folder(ask)
        if ask.seal is not None:
            if (ask.seal.job, ask.seal.rank) != (ask.job, ask.rank):
                raise Refused("it is another's")
            folder.mark_copy()

            def agree() -> None:
                link.sendall(msgspec.json.encode(Answer()) + b"\n")

            receive(file, folder, ask.seal, ask.xxh3, ready=agree)
            agree()
        elif ask.wants is not None:
            self._give(link, folder, *ask.wants)

    def _folder(self, ask: Ask) -> SlotFolder:
        order = self._order
        if order is None or ask.job != order.job:
            raise Refused(f"no job {ask.job} is here")
        if order.forget_job == ask.job:
            raise Refused(f"job {ask.job} has ended")
        if not hmac.compare_digest(ask.key, key_of(order.store_url)):
            raise Refused("the key is another job's")
        if not order.slots_root or (ask.seal is not None and ask.rank in order.ranks):
            raise Refused("that rank is here itself")
        return SlotFolder(Path(order.slots_root) / f"r{ask.rank}")

    def _give(self, link: socket.socket, folder: SlotFolder, epoch: int, step: int) -> None:
        found = folder.find(step=step, epoch=epoch)
        if found is None:
            raise Refused(f"step {step} is not there")
        slot, seal = found
        with slot.locked(exclusive=False) as fd:
            xxh3 = slot.known_sum(seal)
            if fd is None or xxh3 is None:
                raise Refused(f"step {step} is being written over")
            if not slot.is_known(fd, seal):
                raise Refused(f"step {step} in memory has changed since it was sealed")
            link.sendall(msgspec.json.encode(Answer(seal=seal, xxh3=xxh3)) + b"\n")
            with mapped(fd, writable=False) as memory:
                _give(link, memory, seal, lambda _: None)


class Sender:
    """Sends what is due of this node's ranks to the peer of the order, in a thread of its own."""

    def __init__(self, pace: Callable[[AgentOrder], Pace], tell: Callable[[str], None]) -> None:
        self._pace = pace
        self._tell = tell
        self._order: AgentOrder | None = None
        self._last: tuple[int, int] = (-1, -1)

    def give(self, order: AgentOrder) -> None:
        self._order = order

    def run(self, closed: Event, poll_s: float) -> None:
        while not closed.wait(poll_s):
            order = self._order
            if order is None or order.peer is None or not order.ranks:
                continue
            try:
                self._advance(order, order.peer)
            except (OSError, Refused) as error:
                self._tell(f"no copy on {order.peer.address}: {error}")
                closed.wait(RETRY_S)

    def _advance(self, order: AgentOrder, peer: Peer) -> None:
        """All ranks of the newest step that is due and that they all have."""
        folders = {rank: SlotFolder(Path(order.slots[rank])) for rank in order.ranks}
        sealed = [
            {seal.step for _, seal in folder.sealed() if seal.epoch == order.epoch}
            for folder in folders.values()
        ]
        every, (_, last) = order.peer_interval_steps, self._last
        after = last if self._last[0] == order.epoch else -1
        steps = (step for step in set.intersection(*sealed) if due(step, every) and step > after)
        step = max(steps, default=None)
        if step is None:
            return
        pace = self._pace(order)
        for folder in folders.values():
            found = folder.find(step=step, epoch=order.epoch)
            if found is None:
                return
            with found[0].locked(exclusive=False) as fd:
                if fd is None or found[0].seal() != found[1]:
                    return
                send(peer, key_of(order.store_url), *found, fd, pace.took)
        for folder in folders.values():
            folder.put_copied(epoch=order.epoch, step=step)
        self._last = (order.epoch, step)
