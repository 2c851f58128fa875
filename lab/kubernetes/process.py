"""One program of the control plane as a process that cannot outlive this one. Used by `plane`."""

import contextlib
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from holdfast.keeper.processes import children_of

HOLDER = Path(__file__).with_name("held.py")
STOPS_WITHIN_S = 3.0
"""An API server with open watches would wait a minute for them."""
LAST_LINES = 8


class Process:
    """Runs from its making to `stop` or `kill`."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        log: Path,
        stops_within_s: float = STOPS_WITHIN_S,
    ) -> None:
        self.name = name
        self.began_s = time.monotonic()
        self._log = log
        self._stops_within_s = stops_within_s
        with log.open("ab") as out:
            self._holder = subprocess.Popen(
                [sys.executable, "-S", "-E", str(HOLDER), *command],
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """Of the program itself, 0 where there is none."""
        return next(iter(children_of(self._holder.pid)), 0)

    @property
    def ended(self) -> bool:
        return self._holder.poll() is not None

    def stop(self) -> None:
        """Ask it to end and wait until it has; killed when it takes too long."""
        self._holder.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._holder.wait(self._stops_within_s)
        self.kill()

    def kill(self) -> None:
        """End it at once, and wait until it has ended."""
        assert self._holder.stdin is not None
        self._holder.stdin.close()
        self._holder.wait()

    def last_words(self) -> str:
        """How it ended, and the end of its log."""
        lines = self._log.read_text(errors="replace").splitlines()[-LAST_LINES:]
        ended = f"{self.name} ended with exit code {self._holder.poll()}, log {self._log}"
        return "\n  ".join([ended, *lines])
