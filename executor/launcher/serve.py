"""The launcher's loop: imports what it is told, one module at a time, and forks.

Called by `launcher.main`. Must stay single-threaded: this is checked before every fork.
"""

import gc
import os
import select
import socket
import sys
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress

import msgspec

from holdfast.executor.launcher.child import become
from holdfast.executor.launcher.importing import Importer
from holdfast.executor.launcher.orders import (
    MAX_PACKET_BYTES,
    Begin,
    Declined,
    Fork,
    Forked,
    Import,
    Imported,
    Program,
    Spare,
)
from holdfast.executor.launcher.spare import program_at

Ordered = tuple[Fork | Spare, list[int]]
"""A child that is wanted, and the descriptors that came with that."""

REST = 4.0
"""While ranks run, rest this many times as long as an import took: a fifth of one processor."""


class Server:
    """Serves one executor. `serve` returns in the forked child with the program it is to run."""

    def __init__(self, link: socket.socket, started_with: Mapping[str, str] = os.environ) -> None:
        """`started_with`: the environment before anything was imported."""
        self._link = link
        self._started_with = dict(started_with)
        self._decoder = msgspec.json.Decoder(Begin | Import | Fork | Spare)
        self._todo: deque[str] = deque()
        self._forks: list[Ordered] = []
        self._gently = False
        self._rest_s = 0.0
        self._importer = Importer()
        self._spoiled_by = ""

    def serve(self) -> Program | None:
        """Until the executor closes its end (None), or, in a child, its program."""
        while True:
            if not self._readable(self._rest_s if self._todo else None):
                self._import_next()
                continue
            ended = self._read_all()
            if self._forks and (program := self._fork()) is not None:
                return program
            if ended:
                return None

    def _readable(self, wait_s: float | None) -> bool:
        return bool(select.select([self._link], [], [], wait_s)[0])

    def _read_all(self) -> bool:
        """Take in every order that is there; True at the end of the link."""
        while self._readable(0):
            data, fds, _, _ = socket.recv_fds(self._link, MAX_PACKET_BYTES, 2)
            if not data:
                return True
            order = self._decoder.decode(data)
            if isinstance(order, Begin):
                self._begin(order)
            elif isinstance(order, Import):
                self._take(order)
            else:
                self._forks.append((order, fds))
        return False

    def _begin(self, order: Begin) -> None:
        """What an import has set stays, as where it is started with this environment."""
        before, now = self._started_with, order.environment
        for name in before.keys() - now.keys():
            os.environ.pop(name, None)
        os.environ.update({name: now[name] for name in now if before.get(name) != now[name]})
        os.chdir(order.workdir)

    def _take(self, order: Import) -> None:
        self._todo = deque(order.modules)
        self._gently, self._rest_s = order.gently, 0.0
        if not self._todo:
            self._tell_imported()

    def _import_next(self) -> None:
        module, started = self._todo.popleft(), time.monotonic()
        gc.disable()  # a seventh of the time that torch takes
        self._importer.load(module)
        gc.enable()
        if not self._spoiled_by and self._unfit():
            self._spoiled_by = module
        self._rest_s = REST * (time.monotonic() - started) if self._gently else 0.0
        if not self._todo:
            gc.collect()
            gc.freeze()
            self._tell_imported()

    def _unfit(self) -> str:
        half = self._importer.half
        return f"its import of {half} failed half-way" if half else unfit()

    def _fork(self) -> Program | None:
        """Fork what was ordered: the program, in a child; None in the launcher."""
        _reap()
        forks, self._forks = self._forks, []
        why = self._unfit()
        mine = None if why else self._fork_twice(forks)
        for order, fds in forks:
            if why:
                self._tell(Declined(id=order.id, why=why, module=self._spoiled_by))
            _close(fds)
        return mine

    def _fork_twice(self, forks: list[Ordered]) -> Program | None:
        """A grandchild's parent is gone at once, so the executor, a subreaper, adopts it.

        One process between for all of them: with torch loaded each fork takes 11 ms, and each end
        of a process as long.
        """
        sys.stdout.flush()
        sys.stderr.flush()
        if os.fork():
            return None
        for order, fds in forks:
            pid = os.fork()
            if not pid:
                self._link.close()
                return _become(order, fds)
            self._tell(Forked(id=order.id, pid=pid))
        os._exit(0)

    def _tell_imported(self) -> None:
        imported, skipped = self._importer.counts()
        self._tell(Imported(imported=imported, skipped=skipped, torch="torch" in sys.modules))

    def _tell(self, message: Imported | Forked | Declined) -> None:
        self._link.send(msgspec.json.encode(message))


def _become(order: Fork | Spare, fds: list[int]) -> Program:
    """In the child: what it is to run, now or once it is told."""
    if isinstance(order, Spare):
        order, fds = program_at(fds[0])
        become(order.program, *fds)
        _close(fds)
    else:
        become(order.program, *fds)
    return order.program


def _close(fds: list[int]) -> None:
    for fd in fds:
        os.close(fd)


def unfit() -> str:
    """Why this process must not fork, or ""."""
    threads = len(os.listdir("/proc/self/task"))
    if threads > 1:
        return f"it has {threads} threads"
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        return "CUDA is initialised in it"
    return ""


def _reap() -> None:
    """Bury the processes between: a rank is never ours to wait for."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            continue
