"""The fork server's loop: one question after another, each from a process of the same user.

Called by `main`. Must stay single-threaded.
"""

import os
import select
import signal
import socket
import struct
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

import msgspec

from holdfast.executor.forkserver import node, process, reads
from holdfast.executor.forkserver.files import Files
from holdfast.executor.launcher.serve import unfit
from holdfast.kit.surroundings import surroundings, unlike, unlike_variable
from holdfast.protocol.forkserving import (
    MAX_PACKET_BYTES,
    Answer,
    Asked,
    End,
    Node,
    NotTaken,
    Process,
    Program,
    Taken,
    Tell,
    Told,
)

SAYS_WITHIN_S = 1.0
"""Who connects has its question ready."""
KEPT_REFUSALS = 5


Is = Program | socket.socket
"""What a process that was forked is to be; the socket: a launcher, of the executor at its end."""


class Forked(NamedTuple):
    """In a process that was forked: what was asked for, and what of it this is."""

    asked: Node | Process
    is_: Is


class Server:
    """Serves until it is told to end, or nobody has asked for a node for `ends_after_s`."""

    def __init__(
        self, listener: socket.socket, started_with: Mapping[str, str], *, ends_after_s: float
    ) -> None:
        self._listener = listener
        self._started_with = started_with
        self._ends_after_s = ends_after_s
        self._decoder = msgspec.json.Decoder(Asked)
        self._files = Files()
        self._asked_s = time.monotonic()
        self._taken = 0
        self._refused: deque[str] = deque(maxlen=KEPT_REFUSALS)
        self._over = False
        self._wake, self._wakes = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(self._wakes, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def serve(self) -> Forked | None:
        """None at its end; in what was forked, what that is to be."""
        listening = self._listener.fileno()
        while not self._over and (left_s := self._left_s()) > 0:
            ready = select.select([listening, self._wake], [], [], left_s)[0]
            if self._wake in ready:
                os.read(self._wake, 4_096)
                _reap()
            if listening in ready and (forked := self._take()) is not None:
                return forked
        return None

    def close(self) -> None:
        """In what was forked: have nothing of a fork server any more."""
        signal.set_wakeup_fd(-1)
        self._listener.close()
        os.close(self._wake)
        os.close(self._wakes)

    def _left_s(self) -> float:
        return self._asked_s + self._ends_after_s - time.monotonic()

    def _take(self) -> Forked | None:
        link, _ = self._listener.accept()
        with link:
            link.settimeout(SAYS_WITHIN_S)
            if _user_of(link) != os.getuid():
                return None
            try:
                packet, fds, _, _ = socket.recv_fds(link, MAX_PACKET_BYTES, 1)
            except OSError:
                return None
            try:
                answer = self._answer(self._decoder.decode(packet), fds)
            except msgspec.DecodeError:
                return None  # it has gone, or is none of ours: nothing is owed to it
            finally:
                for fd in fds:
                    os.close(fd)
            if isinstance(answer, Forked):
                return answer
            with suppress(OSError):
                link.send(msgspec.json.encode(answer))
        return None

    def _answer(self, asked: Asked, fds: list[int]) -> Answer | Forked:
        match asked:
            case Node():
                return self._forked(asked, partial(node.fork, asked))
            case Process():
                if not fds:
                    return self._refuse("no lifeline came with it")
                return self._forked(asked, partial(process.fork, asked, fds[0]))
            case Tell():
                return self._told()
            case End():
                self._over = True
                return self._told()

    def _forked(self, asked: Node | Process, fork: Callable[[], int | Is]) -> Answer | Forked:
        self._asked_s = time.monotonic()
        if why := self._stale() or self._unlike(asked):
            return self._refuse(why)
        try:
            forked = fork()
        except OSError as error:
            return self._refuse(f"it cannot fork: {error.strerror}")
        if not isinstance(forked, int):
            return Forked(asked, forked)
        self._taken += isinstance(asked, Node)
        return Taken(pid=forked)

    def _refuse(self, why: str) -> NotTaken:
        self._refused.append(why)
        return NotTaken(why=why)

    def _stale(self) -> str:
        return unfit() or self._files.changed()

    def _unlike(self, asked: Node | Process) -> str:
        names = filter(reads.matters, {*asked.imports, *self._started_with})
        return (
            unlike(surroundings(), asked.surroundings)
            or unlike_variable(self._started_with, asked.imports, names)
            or _relative(asked.imports)
        )

    def _told(self) -> Told:
        return Told(
            pid=os.getpid(),
            python=sys.executable,
            torch=str(getattr(sys.modules.get("torch"), "__version__", "")),
            modules=len(sys.modules),
            idle_s=time.monotonic() - self._asked_s,
            ends_after_s=self._ends_after_s,
            taken=self._taken,
            refused=tuple(self._refused),
            stale=self._stale(),
        )


def _relative(environment: Mapping[str, str]) -> str:
    """What is looked for from the working directory was looked for from ours."""
    paths = environment.get("PYTHONPATH", "")
    whole = all(map(os.path.isabs, paths.split(os.pathsep))) if paths else True
    return "" if whole else "the variable PYTHONPATH has paths that are not absolute"


def _user_of(link: socket.socket) -> int:
    sent = link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    _, uid, _ = struct.unpack("3i", sent)
    return int(uid)


def _reap() -> None:
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            continue


def listening(place: Path) -> socket.socket:
    """A socket there, in place of one that a dead server left. Raises `OSError`."""
    place.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(str(place))
    listener.listen(16)
    return listener
