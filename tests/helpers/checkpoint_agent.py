"""A real checkpoint agent process for tests, and what it reports."""

import contextlib
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from waiting import DEADLINE_S

from holdfast.checkpoint.agent_protocol import AgentOrder, AgentReport, line, report


class AgentProcess:
    """One node's agent. It ends with the test, whatever happens."""

    def __init__(
        self, *prefix: str, program: tuple[str, ...] = ("-m", "holdfast.checkpoint.agent")
    ) -> None:
        self.process = subprocess.Popen(
            [*prefix, sys.executable, *program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.pid = self.process.pid
        self.last: AgentReport | None = None
        self.notes: list[str] = []
        self._reports: queue.Queue[AgentReport | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def give(self, order: AgentOrder) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line(order))
        self.process.stdin.flush()

    def until(
        self, fact: Callable[[AgentReport], object], what: str, within_s: float = DEADLINE_S
    ) -> AgentReport:
        """The first report, the last one seen among them, of which `fact` holds."""
        deadline_s = time.monotonic() + within_s
        while self.last is None or not fact(self.last):
            left_s = deadline_s - time.monotonic()
            assert left_s > 0, f"not within {within_s} s: {what}; last was {self.last}"
            try:
                found = self._reports.get(timeout=left_s)
            except queue.Empty:
                continue
            assert found is not None, f"the agent ended before: {what}"
            self.last = found
            self.notes += [note for note in found.notes if note not in self.notes]
        return self.last

    def newest(self) -> AgentReport | None:
        """The last report so far, without waiting for one."""
        while not self._reports.empty() and (found := self._reports.get()) is not None:
            self.last = found
        return self.last

    def state(self) -> str:
        """What it does now, for whoever reads of a test that failed: each thread's state, and the
        kernel's function in which it waits.
        """
        if (code := self.process.poll()) is not None:
            return f"ended before the test, with {code}"
        threads = Path(f"/proc/{self.pid}/task").iterdir()
        return ", ".join(f"{one.name} {_doing(one)}" for one in sorted(threads))

    def kill(self) -> None:
        """SIGKILL, as chaos does it."""
        self.process.kill()
        self.close()

    def close(self) -> int:
        """Close its stdin, as the executor's end does; its exit code."""
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        if self.process.poll() is None:
            os.kill(self.pid, signal.SIGCONT)
        code = self.process.wait(DEADLINE_S)
        self._reader.join(DEADLINE_S)
        if self.process.stdout:
            self.process.stdout.close()
        return code

    def _read(self) -> None:
        assert self.process.stdout is not None
        for text in self.process.stdout:
            self._reports.put(report(text))
        self._reports.put(None)


def _doing(thread: Path) -> str:
    try:
        state = (thread / "stat").read_text().rpartition(")")[2].split()[0]
        return f"{state} {(thread / 'wchan').read_text()}"
    except OSError:
        return "has ended"


Start = Callable[..., AgentProcess]
"""Starts an agent, behind these words if there are any; `program`: another one."""
