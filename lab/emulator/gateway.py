"""The switch's only service: relays the nodes' connections to the driver, or to others, outside.

Started by the emulator's keeper inside the switch's namespaces, which it keeps open: it outlives
the keeper, so that a keeper that comes back finds the switch as it was. A node's bytes to the
driver so cross that node's own link. Where nodes join a Kubernetes it is their kube-proxy too. Must
not look into what it relays. Ends when no keeper held the lock for 30 s.
"""

import argparse
import asyncio
import contextlib
import json
import os
import random
import signal
import socket
import time
from functools import partial
from pathlib import Path

from holdfast.keeper.lock import Patience
from holdfast.keeper.processes import RUN_MARK
from holdfast.protocol.lease import HOST_OUTLIVES_KEEPER_S

GIVE_UP_AFTER_MS = 10_000
"""TCP_USER_TIMEOUT: how long octets to a silent node may stay unacknowledged (RFC 5482)."""

PIECE_BYTES = 65_536

LOOK_S = 0.5
"""How often the list of Services is read, for new ones."""


class Gateway:
    """A TCP port on the switch; behind it a Unix socket: the driver's, or the way to another."""

    def __init__(self, behind: Path) -> None:
        self._behind = behind

    async def serve(self, host: str, port: int) -> asyncio.Server:
        return await asyncio.start_server(self._relay, host, port)

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = writer.get_extra_info("socket")
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, GIVE_UP_AFTER_MS)
        try:
            inner_reader, inner_writer = await asyncio.open_unix_connection(self._behind)
        except OSError:
            writer.close()  # nobody is there: the node tries again
            return
        await join((reader, writer), (inner_reader, inner_writer))


class Services:
    """TCP ports of the switch, each with the endpoints behind it, as kube-proxy makes of Services.

    `file` lists them, as JSON: ports, and for each its endpoints ("ADDRESS:PORT").
    """

    def __init__(self, host: str, file: Path) -> None:
        self._host = host
        self._file = file
        self._servers: dict[str, asyncio.Server] = {}

    async def run(self) -> None:
        """Listen on every port that was ever listed, until cancelled."""
        try:
            while True:
                for port in self._listed().keys() - self._servers.keys():
                    relay = partial(self._relay, port)
                    self._servers[port] = await asyncio.start_server(relay, self._host, int(port))
                await asyncio.sleep(LOOK_S)
        finally:
            for server in self._servers.values():
                server.close()

    def _listed(self) -> dict[str, list[str]]:
        listed: dict[str, list[str]] = {}
        with contextlib.suppress(FileNotFoundError):
            listed = json.loads(self._file.read_bytes())
        return listed

    async def _relay(
        self, port: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """To any of its endpoints; one that does not answer is not there."""
        endpoints = self._listed().get(port)
        try:
            host, _, at = random.choice(endpoints or [""]).rpartition(":")
            inner = await asyncio.open_connection(host, int(at))
        except (OSError, ValueError):
            writer.close()
            return
        await join((reader, writer), inner)


Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def join(one: Ends, other: Ends) -> None:
    """Pass octets both ways until one side ends; then both are closed."""
    ways = {
        asyncio.create_task(_pump(one[0], other[1])),
        asyncio.create_task(_pump(other[0], one[1])),
    }
    await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    for way in ways:
        way.cancel()
    await asyncio.gather(*ways, return_exceptions=True)
    for _, writer in (one, other):
        writer.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while piece := await reader.read(PIECE_BYTES):
            writer.write(piece)
            await writer.drain()


async def _until_nobody_keeps_us(root: Path, ending: asyncio.Event) -> None:
    run_id = os.environ.get(RUN_MARK, "")
    patience = Patience(root, run_id, HOST_OUTLIVES_KEEPER_S, time.monotonic())
    while not (ending.is_set() or patience.is_over(time.monotonic())):
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(ending.wait(), 1.0)


async def _main(options: argparse.Namespace) -> None:
    ending = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ending.set)
    servers = [
        await Gateway(Path(behind)).serve(options.host, int(port))
        for port, _, behind in (relay.partition("=") for relay in options.relay)
    ]
    services = asyncio.create_task(Services(options.host, options.services).run())
    await _until_nobody_keeps_us(options.state, ending)
    services.cancel()
    for server in servers:
        server.close()


if __name__ == "__main__":
    _options = argparse.ArgumentParser()
    _options.add_argument("--host", required=True)
    _options.add_argument("--relay", action="append", default=[], help="PORT=UNIX-SOCKET")
    _options.add_argument("--services", type=Path, required=True, help="JSON, see Services")
    _options.add_argument("--state", type=Path, required=True)
    asyncio.run(_main(_options.parse_args()))
