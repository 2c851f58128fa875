"""The driver's own process, as it is started for people, and a keeper whose nodes are names.

Used by `connected`, beside this file.
"""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

from nodes import Driver  # type: ignore[import-not-found]

from holdfast.kit.tls import trusting
from holdfast.protocol import keeping
from holdfast.protocol.paths import RunPaths

READY_WITHIN_S, LOOK_S = 60.0, 0.05
CALLS = 4_096
"""Wait in the keeper's socket: a start asks for all its nodes at once."""
TICKS_A_S = os.sysconf("SC_CLK_TCK")


class Keeper:
    """Tells the driver of nodes, and does whatever it asks."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._over = asyncio.Event()
        self._more = asyncio.Condition()

    async def add(self, names: Sequence[str]) -> None:
        async with self._more:
            self._names += names
            self._more.notify_all()

    @asynccontextmanager
    async def serving(self, at: Path) -> AsyncIterator[None]:
        async with await asyncio.start_unix_server(self._serve, at, backlog=CALLS) as server:
            yield
            server.close()
            async with self._more:
                self._over.set()
                self._more.notify_all()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer), contextlib.suppress(ConnectionError):
            head = await reader.readexactly(keeping.LENGTH.size)
            asked = keeping.request_of(await reader.readexactly(keeping.body_length(head)))
            if not isinstance(asked, keeping.WatchFacts):
                writer.write(keeping.frame(keeping.Done()))
                return
            await self._tell(writer)

    async def _tell(self, writer: asyncio.StreamWriter) -> None:
        told = 0
        while not self._over.is_set():
            for name in self._names[told:]:
                writer.write(keeping.frame(keeping.NodeFact(node=name)))
            told = len(self._names)
            await writer.drain()
            async with self._more:
                while not self._over.is_set() and len(self._names) == told:
                    await self._more.wait()


class DriverProcess:
    """What it takes of the machine, and how it is reached."""

    def __init__(self, pid: int, paths: RunPaths) -> None:
        self._proc = Path("/proc") / str(pid)
        self._paths = paths
        url = urlsplit(json.loads(paths.address.read_bytes())["http"])
        trusted = trusting(paths.ca.read_text()) if paths.ca.exists() else None
        self.at = Driver(
            url.hostname or "", url.port or 0, paths.node_token.read_text().strip(), trusted
        )
        self.person = paths.user_token.read_text().strip()

    def resident_bytes(self) -> int:
        pages = int((self._proc / "statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def cpu_s(self) -> float:
        fields = (self._proc / "stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS_A_S


@asynccontextmanager
async def driver(folder: Path, keeper: Path, *, tls: bool) -> AsyncIterator[DriverProcess]:
    """Started, and ended with this process. Raises `RuntimeError` with its last words."""
    paths = RunPaths(folder / "state")
    lifeline, held = os.pipe()
    command = [sys.executable, "-m", "holdfast.driver.main", "--state", str(paths.root)]
    options = ["--keeper", str(keeper), "--die-with-fd", str(lifeline), "--log-level", "warning"]
    log = folder / "driver.log"
    with log.open("wb") as said:
        process = subprocess.Popen(
            [*command, *options, *(["--tls"] if tls else [])],
            pass_fds=[lifeline],
            stderr=said,
        )
    os.close(lifeline)
    try:
        async with asyncio.timeout(READY_WITHIN_S):
            while not paths.address.exists():
                if process.poll() is not None:
                    raise RuntimeError(f"the driver ended: {log.read_text().strip()[-500:]}")
                await asyncio.sleep(LOOK_S)
        yield DriverProcess(process.pid, paths)
    finally:
        process.send_signal(signal.SIGTERM)
        os.close(held)
        await asyncio.to_thread(process.wait)
