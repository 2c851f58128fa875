"""One fake node's executor and daemon: each says to the driver what a real one would say.

Used by `simulate`, which has thousands of them. Nothing trains: ranks run as soon as they are told
to, all of a job take a step every STEP_S, and no neighbour is probed. Who really runs beside them
probes an address of this machine, which refuses: so the node is there.
"""

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, NamedTuple

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import WebSocketException

from holdfast.kit.backoff import full_jitter
from holdfast.kit.ids import new_id
from holdfast.kit.together import until_first
from holdfast.lab.emulator.nodes import SWITCH_ADDRESS
from holdfast.protocol.messages import (
    MAX_FRAME_BYTES,
    Desired,
    Heartbeat,
    Hello,
    Observed,
    RankProgress,
    RankStatus,
    Rendezvous,
    ToDaemon,
    ToExecutor,
    WatchOrder,
    Welcome,
)
from holdfast.protocol.version import PROTOCOL_VERSION
from holdfast.protocol.wire import Decoder, ProtocolError, encode

STEP_S = 2.0
STORE_PORT = 29_500
OPEN_WITHIN_S = 5.0
AGAIN_BASE_S, AGAIN_CAP_S = 0.1, 5.0
"""As the executor's own link has them."""

Talk = Callable[[ClientConnection], Awaitable[None]]
_EXECUTOR: Decoder[Any] = Decoder(ToExecutor)
_DAEMON: Decoder[Any] = Decoder(ToDaemon)


class Driver(NamedTuple):
    """Where it is; with TLS whom to trust for it."""

    url: str
    trusted: ssl.SSLContext | None


class SimulatedNode:
    """`driver` says where the driver is, which may change."""

    def __init__(self, name: str, token: str, driver: Callable[[], Driver]) -> None:
        self._name = name
        self._token = token
        self._driver = driver
        self._incarnation = new_id("x")
        self._desired: Desired | None = None
        self._reports = 0
        self._beats = 0
        self._period_s = 1.0

    async def run(self) -> None:
        """Keep both connections until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._keep("executor", _EXECUTOR, self._execute))
            group.create_task(self._keep("daemon", _DAEMON, self._watch))

    async def _keep(self, process: str, decoder: Decoder[Any], talk: Talk) -> None:
        waits = full_jitter(base_s=AGAIN_BASE_S, cap_s=AGAIN_CAP_S)
        while True:
            try:
                async with self._connect(process) as connection:
                    await connection.send(encode(self._hello(process)))
                    if isinstance(decoder.decode(await connection.recv()), Welcome):
                        waits = full_jitter(base_s=AGAIN_BASE_S, cap_s=AGAIN_CAP_S)
                        await talk(connection)
            except (OSError, WebSocketException, ProtocolError, TimeoutError):
                pass  # no driver, or one that will not have us: again, as a real one does
            await asyncio.sleep(next(waits))

    def _connect(self, process: str) -> AbstractAsyncContextManager[ClientConnection]:
        url, trusted = self._driver()
        return connect(
            f"{url.replace('http', 'ws', 1)}/v1alpha1/nodes/{self._name}/{process}",
            additional_headers={"Authorization": f"Bearer {self._token}"},
            ssl=trusted,
            compression=None,
            ping_interval=None,
            max_size=MAX_FRAME_BYTES,
            open_timeout=OPEN_WITHIN_S,
            close_timeout=1,
            proxy=None,
        )

    def _hello(self, process: str) -> Hello:
        told = self._desired
        return Hello(
            protocol=PROTOCOL_VERSION,
            process=process,
            node=self._name,
            incarnation=self._incarnation,
            address=SWITCH_ADDRESS,
            generation=told.generation if told else 0,
            epoch=told.epoch if told else 0,
            term=told.term if told else 0,
        )

    # ------------------------------------------------------------ the executor

    async def _execute(self, connection: ClientConnection) -> None:
        if self._desired is not None:
            await connection.send(encode(self._observed(self._desired)))
        async for frame in connection:
            message = _EXECUTOR.decode(frame)
            if isinstance(message, Desired):
                self._desired = message
                await connection.send(encode(self._observed(message)))

    def _observed(self, told: Desired) -> Observed:
        """All is as it was told to be, at once."""
        self._reports += 1
        meets = Rendezvous(address=SWITCH_ADDRESS, port=STORE_PORT)
        return Observed(
            node=self._name,
            incarnation=self._incarnation,
            sequence=self._reports,
            generation=told.generation,
            epoch=told.epoch,
            job=told.job,
            attempt=told.attempt,
            ranks=tuple(
                RankStatus(rank=seat.rank, state="running", pid=seat.rank + 1)
                for seat in told.seats
            ),
            quiet=not told.seats,
            rendezvous=meets if told.host_rendezvous else None,
            launcher="warm",
        )

    # ------------------------------------------------------------ the daemon

    async def _watch(self, connection: ClientConnection) -> None:
        await until_first(self._listen(connection), self._beat(connection))

    async def _listen(self, connection: ClientConnection) -> None:
        async for frame in connection:
            message = _DAEMON.decode(frame)
            if isinstance(message, WatchOrder):
                self._period_s = message.heartbeat_period_s

    async def _beat(self, connection: ClientConnection) -> None:
        while True:
            self._beats += 1
            await connection.send(encode(self._heartbeat()))
            await asyncio.sleep(self._period_s)

    def _heartbeat(self) -> Heartbeat:
        now_s = asyncio.get_running_loop().time()
        told = self._desired
        ranks = tuple(
            RankProgress(
                rank=seat.rank,
                epoch=told.epoch,
                job=told.job or "",
                pid=seat.rank + 1,
                process="S",
                step=int(now_s / STEP_S),
                hooks=True,
            )
            for seat in (told.seats if told else ())
            if told is not None
        )
        return Heartbeat(
            node=self._name,
            incarnation=self._incarnation,
            sequence=self._beats,
            uptime_s=now_s,
            ranks=ranks,
        )
