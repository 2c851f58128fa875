"""Child processes that are started again when they die, and end with whoever started them.

Used by `holdfast run` and by the lab for a driver and a keeper. Each child inherits the reading end
of a pipe of which only this process holds the other end: when this process ends, however it ends,
they read end-of-file, end what they started, and end themselves (`--die-with-fd N`).
"""

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from holdfast.kit.backoff import full_jitter
from holdfast.kit.foreign import Foreign

FAILURES_IN_A_ROW = 5
"""A process that dies this often within QUICK_S of its start will not come up by itself."""
QUICK_S = 5.0
HOPELESS = frozenset({2, 69, 78})
"""Exit codes (usage, not possible here, configuration) after which another start is no use."""
ENDS_WITHIN_S = 15.0
"""How long children may take to end what they started before they are killed."""
LAST_LINES = 5


class DoesNotStayUp(Exception):
    """A child dies again and again. The message has the end of its log."""

    def __init__(self, name: str, code: int, log: Path) -> None:
        self.name = name
        self.code = code
        self.log = log
        self.last_lines = _last_lines(log)
        said = "".join(f"\n  {line}" for line in self.last_lines)
        super().__init__(f"the {name} does not stay up (exit code {code}, log {log}){said}")


class Lifeline:
    """The pipe. Cutting it tells the children to end."""

    def __init__(self) -> None:
        self.read_fd, self._write_fd = os.pipe()
        os.set_inheritable(self.read_fd, True)

    def cut(self) -> None:
        if self._write_fd >= 0:
            os.close(self._write_fd)
            os.close(self.read_fd)
            self._write_fd = -1


class Child:
    """One process; `starts` counts its lives."""

    def __init__(
        self,
        name: str,
        module: str,
        arguments: Sequence[str],
        *,
        log: Path,
        lifeline: Lifeline,
        environment: Mapping[str, str] | None = None,
        forked: Callable[[str, Sequence[str]], int | None] | None = None,
    ) -> None:
        """`forked`: may have a process of this module and these arguments already, for the first
        life; its pid.
        """
        self._forked = forked
        self._module = module
        self._arguments = tuple(arguments)
        self.name = name
        self.log = log
        self.starts = 0
        self._lifeline = lifeline
        self._environment = environment
        self._waits: Iterator[float] = full_jitter(base_s=0.1, cap_s=2.0)
        self._failures = 0
        self._started_s = 0.0
        self._again_s: float | None = None
        self._process: subprocess.Popen[bytes] | Foreign | None = None
        self._looking = threading.Lock()

    @property
    def pid(self) -> int:
        """Of its current life, 0 between two. For any thread."""
        process = self._process
        return process.pid if process is not None and self._code_of(process) is None else 0

    def look_after(self, now_s: float) -> None:
        """Start it if it is not there and its backoff is over. Raises `DoesNotStayUp`."""
        if self._process is None:
            if self._again_s is None or now_s >= self._again_s:
                self._start(now_s)
            return
        code = self._code_of(self._process)
        if code is None:
            return
        quick = now_s - self._started_s < QUICK_S
        self._failures = self._failures + 1 if quick and code >= 0 else 1
        if code in HOPELESS or self._failures > FAILURES_IN_A_ROW:
            raise DoesNotStayUp(self.name, code, self.log)
        if not quick:
            self._waits = full_jitter(base_s=0.1, cap_s=2.0)
        self._process, self._again_s = None, now_s + next(self._waits)

    def ask_to_end(self, within_s: float) -> bool:
        """SIGTERM, and so long to end all that it started; whether it has. It is not started again
        unless it is looked after.
        """
        if self._process is None:
            return True
        self._process.terminate()
        try:
            self._process.wait(within_s)
        except subprocess.TimeoutExpired:
            return False
        return True

    def end(self, within_s: float) -> None:
        """Wait until it has ended, its lifeline being cut; killed after `within_s`."""
        if self._process is None:
            return
        try:
            self._process.wait(within_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _code_of(self, process: subprocess.Popen[bytes] | Foreign) -> int | None:
        """None while it runs; `poll` by itself says that, too, while another thread polls."""
        with self._looking:
            return process.poll()

    def _start(self, now_s: float) -> None:
        """In a session of its own, so that the terminal's Ctrl-C reaches only us."""
        self._started_s = now_s
        self.starts += 1
        ending = ("--die-with-fd", str(self._lifeline.read_fd))
        forked, self._forked = self._forked, None
        pid = forked(self._module, [*self._arguments, *ending]) if forked else None
        if pid is not None and (process := Foreign.of(pid)) is not None:
            self._process = process
            return
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", self._module, *self._arguments, *ending],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._environment,
                pass_fds=(self._lifeline.read_fd,),
                start_new_session=True,
            )


def end_all(children: Sequence[Child], lifeline: Lifeline) -> None:
    """Let the children end, each with all that it started; what does not end is killed."""
    lifeline.cut()
    for child in children:
        child.end(ENDS_WITHIN_S)


def _last_lines(log: Path) -> list[str]:
    try:
        return log.read_text(errors="replace").splitlines()[-LAST_LINES:]
    except OSError:
        return []
