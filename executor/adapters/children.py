"""Every child of this process is reaped here and nowhere else, adopted ones too.

Called by whatever starts a process. An exit is known some microseconds after it happened, from
SIGCHLD. Must not be used beside `asyncio.subprocess`, which would wait for the same children.
"""

import asyncio
import ctypes
import os
import signal
import subprocess
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

import msgspec

PR_SET_CHILD_SUBREAPER = 36


class Exit(msgspec.Struct, frozen=True):
    """How a process ended: one of the two is set."""

    code: int | None
    signal: int | None


OnExit = Callable[[int, Exit], None]
"""Called with the pid and how it ended."""


class Children:
    """Reaps, and tells who asked. `changed` is set at every exit."""

    def __init__(self) -> None:
        self._watched: dict[int, OnExit] = {}
        self._popen: dict[int, subprocess.Popen[bytes]] = {}
        self._early: dict[int, Exit] = {}
        self.changed = asyncio.Event()

    def start(self) -> None:
        """Adopt orphans of children, and listen for exits, in the running loop."""
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")
        asyncio.get_running_loop().add_signal_handler(signal.SIGCHLD, self._reap)

    def spawn(
        self,
        command: Sequence[str],
        on_exit: OnExit,
        *,
        env: Mapping[str, str],
        cwd: str | Path | None = None,
        stdin: int = subprocess.DEVNULL,
        stdout: int = subprocess.DEVNULL,
        stderr: int | None = None,
        pass_fds: Sequence[int] = (),
        before: Callable[[], None] | None = None,
    ) -> int:
        """Start `command` in a session of its own; its pid. Raises `OSError`.

        `before` is called in the new process before it executes; it may take no lock, and import
        nothing: a thread that is not there any more may have it.
        """
        process = subprocess.Popen(
            command,
            env=env,
            cwd=cwd,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            pass_fds=pass_fds,
            start_new_session=True,
            preexec_fn=before,  # noqa: PLW1509 see above
        )
        self._popen[process.pid] = process
        self.watch(process.pid, on_exit)
        return process.pid

    def watch(self, pid: int, on_exit: OnExit) -> None:
        """Call `on_exit` when `pid` ends, also if that was reaped already, as a stray."""
        early = self._early.pop(pid, None)
        if early is not None and not os.path.exists(f"/proc/{pid}"):
            asyncio.get_running_loop().call_soon(on_exit, pid, early)
            return
        self._watched[pid] = on_exit

    def has_any(self, pids: Collection[int]) -> bool:
        """Whether one of these that is watched has not ended."""
        return any(pid in self._watched for pid in pids)

    def forget_strays(self) -> None:
        """Drop the exits that nobody asked for; called when nothing is being started."""
        self._early.clear()

    def _reap(self) -> None:
        while (ended := _next_exit()) is not None:
            pid, status = ended
            if (process := self._popen.pop(pid, None)) is not None:
                process.returncode = status.code if status.code is not None else -1
            on_exit = self._watched.pop(pid, None)
            if on_exit is None:
                self._early[pid] = status
            else:
                on_exit(pid, status)
        self.changed.set()


def _next_exit() -> tuple[int, Exit] | None:
    try:
        info = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG)
    except ChildProcessError:
        return None
    if info is None:
        return None
    if info.si_code == os.CLD_EXITED:
        return info.si_pid, Exit(info.si_status, None)
    return info.si_pid, Exit(None, info.si_status)
