"""A script's function that is called again in the same process, once another rank was lost.

Called by `holdfast.run`, in a rank's main thread. Survivors of a fault keep their process, imports
and device contexts: their groups are aborted, their function is left by an exception, and they wait
for the table of the next attempt. Must not say that it rests while anything of the attempt runs.
"""

import gc
import os
import queue
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any, TypeVar

import msgspec

from holdfast.kit import procstat
from holdfast.protocol.rankenv import REENTRY
from holdfast.protocol.reentry import AtRest, Begin, Enter, Rest
from holdfast.telemetry import hooks
from holdfast.telemetry.analysis.echoes import in_collective
from holdfast.telemetry.groups import Groups

LEAVE = signal.SIGRTMIN + 5
"""Sent to the main thread by ours: its handler raises `Restart` wherever the function stands, in a
sleep or a read, too."""
AGAIN_S = 0.5
"""Until that is sent anew to a function that has swallowed it."""
ECHO_WAIT_S = 5.0
"""How long a rank that lost a peer waits to be told that the attempt is over, before it dies of it.
A death is judged within .1 s, the loss of a node within 2."""
JOIN_S = 0.5
"""What threads have to end that the function has left."""
MAX_PACKET_BYTES = 1 << 20

_T = TypeVar("_T")


class Restart(BaseException):
    """Another rank was lost: the function is left, and called again. Not for you to catch."""


def run_again(function: Callable[[], _T]) -> _T:
    """What `function` returns. Raises what it raises, unless that comes of another rank's end."""
    name = os.environ.get(REENTRY, "")
    if not name:
        return function()
    if threading.current_thread() is not threading.main_thread():
        raise RuntimeError("holdfast.run: call it in the main thread, which alone can be stopped.")
    link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        link.connect(f"\0{name}")
    except OSError:  # another network namespace, or an executor of before: once, as without us
        link.close()
        return function()
    with link:
        return Entrant(link).run(function)


class Entrant:
    """One process in one function."""

    def __init__(self, link: socket.socket) -> None:
        self._link = link
        self._groups = Groups()
        self._orders: queue.SimpleQueue[tuple[Begin, list[int]] | None] = queue.SimpleQueue()
        self._asked = threading.Event()
        self._inside = False
        self._before: set[threading.Thread] = set()
        self._nagging: threading.Thread | None = None
        self._is_left = threading.Event()
        self._hook = sys.excepthook  # each init_process_group of torch puts one before it

    def run(self, function: Callable[[], _T]) -> _T:
        signal.signal(LEAVE, self._leave)
        threading.Thread(target=self._listen, name="holdfast-reentry", daemon=True).start()
        self._say(Enter(rank=int(os.environ["RANK"]), local_rank=int(os.environ["LOCAL_RANK"])))
        while True:
            self._before = set(threading.enumerate())
            self._groups.begins()
            with suppress(Restart):  # raised as the function had just ended
                ended, result = self._called(function)
                if ended:
                    return result[0]
            self._rest()
            self._begin()

    def _called(self, function: Callable[[], _T]) -> tuple[bool, list[_T]]:
        """Whether it has ended by itself, with its result: else the attempt is over."""
        result: list[_T] = []
        try:
            self._inside = True
            result = [function()]
        except Restart as stop:
            _let_go(stop)
        except BaseException as error:
            self._inside = False
            if not self._is_over(error):
                raise
            _let_go(error)
        finally:
            self._inside = False
        return not self._asked.is_set(), result

    def _is_over(self, error: BaseException) -> bool:
        """Whether the attempt is. Who has lost a peer leaves its groups, so that others notice."""
        if self._asked.is_set():
            return True
        if not isinstance(error, Exception) or not _is_echo(error):
            return False
        self._groups.leave()
        return self._asked.wait(ECHO_WAIT_S)

    # ------------------------------------------------------------ the other thread

    def _listen(self) -> None:
        with suppress(OSError):
            while True:
                data, fds, _, _ = socket.recv_fds(self._link, MAX_PACKET_BYTES, 2)
                if not data:
                    break
                order: Rest | Begin = msgspec.json.decode(data, type=Rest | Begin)
                if isinstance(order, Begin):
                    self._orders.put((order, fds))
                else:
                    self._stop()
        self._orders.put(None)

    def _stop(self) -> None:
        """Free the main thread, wherever it stands."""
        self._is_left.clear()
        self._nagging = threading.Thread(target=self._nag, name="holdfast-nag", daemon=True)
        self._nagging.start()

    def _nag(self) -> None:
        """Until the function is left, and no longer: it would take the next attempt's groups."""
        self._asked.set()
        self._groups.abort()
        while self._inside:
            signal.pthread_kill(threading.main_thread().ident or 0, LEAVE)
            self._groups.abort()
            self._is_left.wait(AGAIN_S)

    def _leave(self, number: int, frame: FrameType | None) -> None:
        if self._inside and self._asked.is_set():
            raise Restart

    # ------------------------------------------------------------ between two attempts

    def _rest(self) -> None:
        self._is_left.set()
        self._groups.leave()
        sys.excepthook = self._hook
        gc.collect()
        if left := self._left():
            print(f"holdfast.run: begins in a new process, for {left}", file=sys.stderr)  # noqa: T201
            sys.stderr.flush()
            os._exit(1)
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        self._say(AtRest())

    def _left(self) -> str:
        """What of the attempt would go on beside the next one; "" where nothing does."""
        if self._nagging is not None:
            self._nagging.join(JOIN_S)
            if self._nagging.is_alive():
                return "what frees it goes on"
        ours = ("holdfast-",)
        for thread in set(threading.enumerate()) - self._before:
            if not thread.name.startswith(ours):
                thread.join(JOIN_S)
                if thread.is_alive():
                    return f"thread {thread.name!r} goes on"
        children = procstat.children(os.getpid())
        return f"child process {children[0]} goes on" if children else ""

    def _begin(self) -> None:
        order = self._orders.get()
        if order is None:
            os._exit(1)  # nobody is there to begin for
        begin, fds = order
        for fd, target in zip(fds, (1, 2), strict=True):
            os.dup2(fd, target)
            os.close(fd)
        os.environ.update(begin.env)
        self._asked.clear()
        hooks.renew()

    def _say(self, message: Enter | AtRest) -> None:
        with suppress(OSError):  # the executor has gone: the listener hears it
            self._link.send(msgspec.json.encode(message))


def _is_echo(error: Exception) -> bool:
    name = type(error).__name__
    text = "".join(traceback.format_exception(error))
    return in_collective(f"{name}: {error}", text, name)


def _let_go(error: BaseException) -> None:
    """Have nothing of the function live on in the frames of what ended it."""
    left: list[Any] = [error]
    seen: set[int] = set()
    while left:
        each = left.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        traceback.clear_frames(each.__traceback__)
        left += [each.__cause__, each.__context__]
        each.__traceback__ = None
