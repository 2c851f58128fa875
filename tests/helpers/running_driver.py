"""A driver as a process of its own, for tests that kill it, stop it or start it anew.

Used by tests of the driver's life. It dies with the tests.
"""

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from dying import die_with_parent
from waiting import DEADLINE_S, eventually_async

from holdfast.driver.adapters.sql.sqlite import read_only
from holdfast.driver.ports import Entry, PermanentError
from holdfast.protocol.paths import RunPaths


class DriverProcess:
    """`python -m holdfast.driver.main` on one state, as often as it is started.

    `program` may be set to what else of Python's words begins it.
    """

    def __init__(self, state: Path, *arguments: str, **environment: str) -> None:
        self.paths = RunPaths(state)
        self.log = state.with_suffix(".log")
        self._arguments = arguments
        self._environment = environment
        self.program: tuple[str, ...] = ("-m", "holdfast.driver.main")
        self.process: subprocess.Popen[bytes] | None = None

    def spawn(self, stdin: int | None = None) -> subprocess.Popen[bytes]:
        command = [sys.executable, *self.program, "--state", str(self.paths.root)]
        with self.log.open("a") as log:
            self.process = subprocess.Popen(
                [*command, *self._arguments],
                stdin=stdin,
                stderr=log,
                env=os.environ | self._environment,
                preexec_fn=die_with_parent,
            )
        return self.process

    async def start(self) -> dict[str, Any]:
        """Spawn and wait until it has said where it answers."""
        process = self.spawn()

        def address() -> dict[str, Any] | None:
            assert process.poll() is None, self.log.read_text()
            with suppress(OSError, ValueError):
                said: dict[str, Any] = json.loads(self.paths.address.read_text())
                return said if said["pid"] == process.pid else None
            return None

        found: dict[str, Any] = await eventually_async(address)
        return found

    def end(self, number: int = signal.SIGTERM) -> int:
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(timeout=DEADLINE_S)

    def journal(self) -> list[Entry]:
        """What is in the journal now, whoever has it open, where it is a file of the state."""
        with suppress(PermanentError):  # before it is there
            reader, _ = read_only(self.paths.journal)
            try:
                return reader.entries()
            finally:
                reader.close()
        return []
