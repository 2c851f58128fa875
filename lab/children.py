"""Processes that the lab keeps going: started, started again when they die, ended together.

Used by `lab.cluster`. Each gets the reading end of a pipe whose other end only this process has:
however this process ends, they read end-of-file and end with all that they started.
"""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from holdfast.kit.backoff import full_jitter

LOOK_S = 0.05
ENDS_WITHIN_S = 15.0
STEADY_AFTER_S = 10.0


class Child:
    """One of them. `pid` changes with each life, `starts` counts them."""

    def __init__(self, module: str, arguments: Sequence[str], log: Path) -> None:
        self.log = log
        self.starts = 0
        self._command = [sys.executable, "-m", module, *arguments]
        self._waits = full_jitter(base_s=0.1, cap_s=2.0)
        self._again_s = 0.0
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Of its current life, 0 between two."""
        return self._process.pid if self._process and self._process.poll() is None else 0

    def look_after(self, lifeline_fd: int, environment: dict[str, str]) -> None:
        """Start it if it is not there and its backoff is over."""
        now_s = time.monotonic()
        if self._process is not None:
            if self._process.poll() is None:
                return
            if now_s - self._again_s > STEADY_AFTER_S:
                self._waits = full_jitter(base_s=0.1, cap_s=2.0)
            self._again_s = now_s + next(self._waits)
            self._process = None
        if now_s >= self._again_s:
            self._start(lifeline_fd, environment)

    def wait(self, within_s: float) -> None:
        """Until it ended; killed where it took too long."""
        if self._process is None:
            return
        try:
            self._process.wait(within_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _start(self, lifeline_fd: int, environment: dict[str, str]) -> None:
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*self._command, "--die-with-fd", str(lifeline_fd)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                pass_fds=(lifeline_fd,),
                start_new_session=True,
            )
        self.starts += 1


class Nursery:
    """Children by name, looked after by a thread of this process."""

    def __init__(self, children: dict[str, Child], environment: dict[str, str]) -> None:
        self.children = children
        self._environment = environment
        self._lifeline, self._ours = os.pipe()
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._look_after, name="nursery", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Let all of them end, with everything that they started."""
        self._ending.set()
        self._thread.join()
        os.close(self._ours)
        os.close(self._lifeline)
        deadline_s = time.monotonic() + ENDS_WITHIN_S
        for child in self.children.values():
            child.wait(max(0.1, deadline_s - time.monotonic()))

    def _look_after(self) -> None:
        while not self._ending.is_set():
            for child in self.children.values():
                child.look_after(self._lifeline, self._environment)
            self._ending.wait(LOOK_S)
