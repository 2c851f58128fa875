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
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from holdfast.executor.forkserver import node, reads
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
    Taken,
    Tell,
    Told,
)

SAYS_WITHIN_S = 1.0
"""Who connects has its question ready."""
KEPT_REFUSALS = 5


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

    def serve(self) -> socket.socket | None:
        """None at its end; in a launcher that was forked, its executor's socket."""
        wake = self._wake
        while not self._over and (left_s := self._left_s()) > 0:
            ready = select.select([self._listener, wake], [], [], left_s)[0]
            if wake in ready:
                os.read(wake, 4_096)
                _reap()
            if self._listener in ready and (launcher := self._take()) is not None:
                return launcher
        return None

    def close(self) -> None:
        """In a launcher: have nothing of a fork server any more."""
        signal.set_wakeup_fd(-1)
        self._listener.close()
        os.close(self._wake)
        os.close(self._wakes)

    def _left_s(self) -> float:
        return self._asked_s + self._ends_after_s - time.monotonic()

    def _take(self) -> socket.socket | None:
        link, _ = self._listener.accept()
        with link:
            link.settimeout(SAYS_WITHIN_S)
            try:
                if _user_of(link) != os.getuid():
                    return None
                asked = self._decoder.decode(link.recv(MAX_PACKET_BYTES))
            except (OSError, msgspec.DecodeError):
                return None  # it has gone, or it is none of ours: nothing is owed to it
            answer = self._answer(asked)
            if isinstance(answer, socket.socket):
                return answer
            with suppress(OSError):
                link.send(msgspec.json.encode(answer))
        return None

    def _answer(self, asked: Asked) -> Answer | socket.socket:
        match asked:
            case Node():
                return self._node(asked)
            case Tell():
                return self._told()
            case End():
                self._over = True
                return self._told()

    def _node(self, asked: Node) -> Answer | socket.socket:
        self._asked_s = time.monotonic()
        if why := self._stale() or self._unlike(asked):
            return self._refuse(why)
        try:
            forked = node.fork(asked)
        except OSError as error:
            return self._refuse(f"it cannot fork: {error.strerror}")
        if isinstance(forked, socket.socket):
            return forked
        self._taken += 1
        return Taken(pid=forked)

    def _refuse(self, why: str) -> NotTaken:
        self._refused.append(why)
        return NotTaken(why=why)

    def _stale(self) -> str:
        return unfit() or self._files.changed()

    def _unlike(self, asked: Node) -> str:
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
