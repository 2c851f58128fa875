"""A process that is no child of ours, looked after as `subprocess.Popen` looks after one. Linux.

Used by `supervise`. How it ended is not known: only its parent is told.
"""

import os
import select
import signal
import subprocess

ENDED = -signal.SIGKILL
"""What it is taken for: of all ends the one that says nothing of why."""


class Foreign:
    """By a pidfd, which never means another process that has its number later."""

    def __init__(self, pid: int, handle: int) -> None:
        self.pid = pid
        self._handle = handle
        self._ended = False

    @classmethod
    def of(cls, pid: int) -> "Foreign | None":
        """None where it has ended."""
        try:
            return cls(pid, os.pidfd_open(pid))
        except ProcessLookupError:
            return None

    def poll(self) -> int | None:
        """None while it runs."""
        return self._poll(0.0)

    def wait(self, timeout: float | None = None) -> int:
        """Raises `subprocess.TimeoutExpired`."""
        code = self._poll(timeout)
        if code is None:
            raise subprocess.TimeoutExpired([f"pid {self.pid}"], timeout or 0.0)
        return code

    def terminate(self) -> None:
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        self._signal(signal.SIGKILL)

    def _poll(self, timeout: float | None) -> int | None:
        if not self._ended and select.select([self._handle], [], [], timeout)[0]:
            self._ended = True
            os.close(self._handle)
        return int(ENDED) if self._ended else None

    def _signal(self, number: signal.Signals) -> None:
        if self._poll(0.0) is None:
            signal.pidfd_send_signal(self._handle, number)
