"""Ranks that can begin anew in their own process: told to rest, left alone, told to begin.

Called by `executor.loop` and `executor.ranks`. A rank that does not rest in time is nothing special
any more: it is ended like all others, and another is forked. Must not decide who is to rest.
"""

import asyncio
import os
import signal
import socket
import struct
from collections.abc import Collection, Mapping
from contextlib import suppress

import msgspec

from holdfast.executor.adapters.children import Children, OnExit
from holdfast.kit import procstat
from holdfast.kit.ids import new_id
from holdfast.protocol.messages import Seat
from holdfast.protocol.reentry import AtRest, Begin, Enter, Rest

REST_LIMIT_S = 1.5
"""From the order to rest until a rank has left its function and its groups: what `finally` blocks
may take. Some ranks in gloo wait on in torch 2.15 though their connections are closed, and are
forked."""
STARVED_LIMIT_S = 6.0
"""How much longer than that where it gets no core meanwhile, at most. (Beside ten busy loops on two
cores ranks that only slept took up to 2 s.)"""
MAX_PACKET_BYTES = 65_536
_CREDENTIALS = struct.Struct("3i")
"""Of the other end, unix(7): pid, user, group."""


class Entrant:
    """A process in a function that can be called again."""

    def __init__(self, link: socket.socket) -> None:
        self.link = link
        self.place: tuple[int, int] | None = None  # rank and local rank, once it has told
        self.rests = False


class Reentry:
    """Entrants by pid. `open` and `close` in the running loop."""

    def __init__(self, children: Children) -> None:
        self._children = children
        self._entrants: dict[int, Entrant] = {}
        self._asked: set[int] = set()
        self._changed = asyncio.Event()
        self._decoder = msgspec.json.Decoder(Enter | AtRest)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.name = f"holdfast-{new_id('r')}"

    @property
    def pids(self) -> set[int]:
        """Those at rest, or on their way to it: nobody's rank."""
        return self._asked | {pid for pid, each in self._entrants.items() if each.rests}

    def open(self) -> None:
        self._listener.setblocking(False)
        self._listener.bind(f"\0{self.name}")
        self._listener.listen()
        asyncio.get_running_loop().add_reader(self._listener, self._accept)

    def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self._listener)
        self._listener.close()
        for pid in tuple(self._entrants):
            self._forget(pid)

    def ask(self, pids: Collection[int]) -> None:
        """Have those of `pids` rest that can: they are nobody's rank from here on."""
        self._asked = {pid for pid in pids if self._can_rest(pid)}
        for pid in tuple(self._asked):
            self._send(pid, Rest())

    async def rested(self) -> set[int]:
        """Once all that were asked rest; those that did not in time are ranks as before.

        Time in which one wanted a core and had none does not count.
        """
        begun_s = asyncio.get_running_loop().time()
        before = {pid: procstat.kept_waiting_s(pid) for pid in self._asked}
        until_s = begun_s
        while (limit_s := begun_s + REST_LIMIT_S + self._starved_s(before)) > until_s:
            until_s = limit_s
            if await self._all_rest(until_s):
                break
        late = self._moving
        for pid in late:
            self._forget(pid)
        self._asked = set()
        return late

    def begin(
        self, seat: Seat, env: Mapping[str, str], *, stdout: int, stderr: int, on_exit: OnExit
    ) -> int | None:
        """The pid of one that rests in this place, and goes on as `env` says; None: there is none.

        A place is rank and local rank: what it holds of devices is of those.
        """
        packet = msgspec.json.encode(Begin(env=dict(env)))
        for pid, each in self._entrants.items():
            if each.rests and each.place == (seat.rank, seat.local_rank):
                each.rests = False
                with suppress(OSError):  # it has just died
                    socket.send_fds(each.link, [packet], [stdout, stderr])
                    self._children.watch(pid, on_exit)
                    return pid
        return None

    def drop(self) -> None:
        """End those that still rest: nobody wants them."""
        for pid in [pid for pid, each in self._entrants.items() if each.rests]:
            self._forget(pid)
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    async def _all_rest(self, until_s: float) -> bool:
        with suppress(TimeoutError):
            async with asyncio.timeout_at(until_s):
                while self._moving:
                    self._changed.clear()
                    await self._changed.wait()
        return not self._moving

    def _starved_s(self, before: Mapping[int, float]) -> float:
        """For how long the worst of those that move still was kept waiting since `before`."""
        waits = (procstat.kept_waiting_s(pid) - before[pid] for pid in self._moving)
        return min(max(waits, default=0.0), STARVED_LIMIT_S)

    @property
    def _moving(self) -> set[int]:
        return {pid for pid in self._asked if self._is_moving(pid)}

    def _can_rest(self, pid: int) -> bool:
        return pid in self._entrants and self._entrants[pid].place is not None

    def _is_moving(self, pid: int) -> bool:
        return pid in self._entrants and not self._entrants[pid].rests

    def _send(self, pid: int, message: Rest) -> None:
        try:
            self._entrants[pid].link.send(msgspec.json.encode(message))
        except OSError:
            self._forget(pid)

    def _accept(self) -> None:
        try:
            link, _ = self._listener.accept()
        except OSError:
            return  # it has gone again
        link.setblocking(False)
        told = link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        pid, user, _ = _CREDENTIALS.unpack(told)
        if user != os.getuid() or pid in self._entrants:
            link.close()
            return
        self._entrants[pid] = Entrant(link)
        asyncio.get_running_loop().add_reader(link, self._read, pid)

    def _read(self, pid: int) -> None:
        each = self._entrants[pid]
        try:
            data = each.link.recv(MAX_PACKET_BYTES)
            told: Enter | AtRest = self._decoder.decode(data)
        except BlockingIOError:
            return
        except (OSError, msgspec.DecodeError):  # it has gone: nothing is no message
            self._forget(pid)
            return
        match told:
            case Enter(rank=rank, local_rank=local_rank):
                each.place = (rank, local_rank)
            case AtRest():
                each.rests = True
        self._changed.set()

    def _forget(self, pid: int) -> None:
        each = self._entrants.pop(pid)
        asyncio.get_running_loop().remove_reader(each.link)
        each.link.close()
        self._changed.set()
