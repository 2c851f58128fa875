"""The rendezvous that a node hosts for an epoch: a process, or at least a port.

Called by `executor.loop` for a HostRendezvous.
"""

import asyncio
import os
import signal
import socket
from functools import partial
from pathlib import Path

import msgspec

from holdfast.executor import meeting
from holdfast.executor.adapters.children import Exit
from holdfast.executor.adapters.pipes import readable
from holdfast.executor.adapters.proctree import signal_each
from holdfast.executor.adapters.room import to_free_mib
from holdfast.executor.command import NotStartable
from holdfast.executor.core import events as ev
from holdfast.executor.core.actions import HostRendezvous
from holdfast.executor.launcher.orders import Program
from holdfast.executor.ranks import Tell
from holdfast.executor.spawner import Spawner
from holdfast.kit.logs import LazyLogger
from holdfast.protocol.messages import Rendezvous

ROOM_LOOK_S = 1.0
"""Between two looks at a full disk."""

LISTEN_LIMIT_S = 60.0
"""From the fork to the port: 2 ms warm, but torch has to be imported where there is no launcher."""


_log = LazyLogger()


class _Listening(msgspec.Struct):
    port: int


class RendezvousHost:
    """Hosts one epoch's rendezvous after another, on one address."""

    def __init__(self, spawner: Spawner, address: str, tell: Tell) -> None:
        self._spawner = spawner
        self._address = address
        self._tell = tell
        self._pid: int | None = None

    def end(self) -> None:
        """Whoever waits at it is told so, by an error."""
        if self._pid is not None:
            signal_each([self._pid], signal.SIGKILL)

    async def start(self, order: HostRendezvous) -> None:
        """Serve where the job is known to use torch.

        Otherwise (another interpreter, no torch here, no Python at all) a free port is named, on
        which rank 0 serves it itself if the job wants one, as it does without an agent.
        """
        await self._room(order)
        if order.meets:
            await meeting.awaited(self._tell, order.job, order.epoch, order.meets)
        port = await self._serve(order) if await self._spawner.uses_torch() else None
        served = port is not None
        rendezvous = Rendezvous(address=self._address, port=port or _free_port(self._address))
        self._tell(
            ev.RendezvousListening(
                job=order.job, epoch=order.epoch, rendezvous=rendezvous, served=served
            )
        )

    async def _room(self, order: HostRendezvous) -> None:
        """Return once ranks have room for what they write: none is to start, and die of it."""
        mib = to_free_mib(Path(order.logs))
        if not mib:
            return
        why = (
            f"the disk of {order.logs} is full, and training is held. Free at least {mib} MiB "
            "there, and it goes on by itself"
        )
        self._tell(ev.RoomLacked(job=order.job, epoch=order.epoch, why=why))
        while to_free_mib(Path(order.logs)):
            await asyncio.sleep(ROOM_LOOK_S)
        self._tell(ev.RoomLacked(job=order.job, epoch=order.epoch, why=""))

    async def _serve(self, order: HostRendezvous) -> int | None:
        """The port of a new process that serves, or None where it did not get that far."""
        ours, theirs = os.pipe()
        program = Program(
            module="holdfast.executor.launcher.rendezvous",
            arguments=(self._address, str(os.getpid())),
            title=f"rdzv-e{order.epoch}",
        )
        async with readable(ours) as lines:
            try:
                self._pid = await self._spawner.start(
                    program,
                    os.environ,
                    stdout=theirs,
                    stderr=2,
                    on_exit=partial(self._ended, order),
                )
            except NotStartable as error:
                _log.warning("no rendezvous process", why=str(error))
                return None
            finally:
                os.close(theirs)
            try:
                async with asyncio.timeout(LISTEN_LIMIT_S):
                    text = await lines.readline()
            except TimeoutError:
                return None
        return msgspec.json.decode(text, type=_Listening).port if text else None

    def _ended(self, order: HostRendezvous, pid: int, end: Exit) -> None:
        self._pid = None if self._pid == pid else self._pid
        why = f"the rendezvous process ended (exit code {end.code}, signal {end.signal})"
        self._tell(ev.RendezvousEnded(job=order.job, epoch=order.epoch, why=why))


def _free_port(address: str) -> int:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.bind((address, 0))
        return int(probe.getsockname()[1])
