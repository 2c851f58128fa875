"""The driver and the keeper of one run, as child processes: started, restarted, taken down.

Each inherits the reading end of a pipe of which only this process holds the other end. When this
process ends, however it ends, they read end-of-file, end what they started, and end themselves.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from holdfast.cli.errors import Stopped
from holdfast.kit.backoff import full_jitter
from holdfast.protocol import exitcodes

FAILURES_IN_A_ROW = 3
"""A process that dies this often within QUICK_S of its start will not come up by itself."""
QUICK_S = 5.0
END_S = 10.0
"""How long children may take to end what they started before they are killed."""


class Lifeline:
    """A pipe whose closing tells the children to die."""

    def __init__(self) -> None:
        self.read_fd, self._write_fd = os.pipe()
        os.set_inheritable(self.read_fd, True)

    def cut(self) -> None:
        if self._write_fd >= 0:
            os.close(self._write_fd)
            os.close(self.read_fd)
            self._write_fd = -1


class Child:
    """One process that is started again when it dies."""

    def __init__(
        self, name: str, module: str, arguments: Sequence[str], log: Path, lifeline: Lifeline
    ) -> None:
        self.name = name
        self.log = log
        self._lifeline = lifeline
        self._command = [sys.executable, "-m", module, *arguments]
        self._waits: Iterator[float] = full_jitter(base_s=0.1, cap_s=2.0)
        self._failures = 0
        self._again_at: float | None = None
        self._start()

    def _start(self) -> None:
        """In a session of its own, so that the terminal's Ctrl-C reaches only us."""
        self._started = time.monotonic()
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*self._command, "--die-with-fd", str(self._lifeline.read_fd)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=(self._lifeline.read_fd,),
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def look_after(self, now: float) -> None:
        """Start it again if it has died. Raises `Stopped` where it does not stay up."""
        if self._again_at is not None:
            if now >= self._again_at:
                self._again_at = None
                self._start()
            return
        if self._process.poll() is None:
            return
        quick = now - self._started < QUICK_S
        self._failures = self._failures + 1 if quick else 1
        code = self._process.returncode
        if code in (exitcodes.USAGE, exitcodes.CONFIGURATION) or self._failures > FAILURES_IN_A_ROW:
            raise Stopped(
                f"the {self.name} does not stay up (exit code {code}).",
                fix=f"Its log: {self.log}",
                details=self._last_lines(),
            )
        self._again_at = now + next(self._waits)

    def end(self, within_s: float) -> bool:
        """Wait until it has ended; killed after `within_s`. False where it had to be."""
        try:
            self._process.wait(within_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            return False
        return True

    def _last_lines(self, count: int = 5) -> list[str]:
        try:
            return self.log.read_text(errors="replace").splitlines()[-count:]
        except OSError:
            return []


def end_all(children: Sequence[Child], lifeline: Lifeline, within_s: float = END_S) -> None:
    """Take the children down, each with all that it started; what does not end is killed."""
    lifeline.cut()
    deadline = time.monotonic() + within_s
    for child in children:
        child.end(max(0.1, deadline - time.monotonic()))
