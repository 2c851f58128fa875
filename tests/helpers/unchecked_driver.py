"""Drivers that lead without having asked whether they may do what they will have to.

Used by tests of what becomes of a driver that lacks a right. They are forked from one process that
has loaded all that a driver needs, so that twenty of them cost little more than one. They die with
it, and it with the tests.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from dying import die_with_parent
from waiting import eventually_async

from holdfast.driver import process as driver
from holdfast.driver.settings import Settings
from holdfast.protocol.paths import RunPaths


class UncheckedDriver(NamedTuple):
    """One of them, which runs from when it is made."""

    paths: RunPaths
    log: Path
    pid: int

    async def url(self) -> str:
        """Where it answers, once it leads and says so."""

        def said() -> str:
            os.kill(self.pid, 0)  # raises where it has ended
            with suppress(OSError, ValueError):
                return str(json.loads(self.paths.address.read_text())["http"])
            return ""

        return await eventually_async(said, f"it leads, see {self.log}")

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)


class UncheckedDrivers:
    """The process that they are forked from."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def spawn(self, state: Path, *words: str, **environment: str) -> UncheckedDriver:
        """With these words of `holdfast.driver.main`, and `--state`."""
        log = state.with_suffix(".log")
        order = {"words": ["--state", str(state), *words], "log": str(log), "env": environment}
        assert self._process.stdin is not None
        self._process.stdin.write(f"{json.dumps(order)}\n")
        self._process.stdin.flush()
        return UncheckedDriver(RunPaths(state), log, int(self.answer()))

    def answer(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()


@contextmanager
def unchecked_drivers() -> Iterator[UncheckedDrivers]:
    """None of them is left at the end."""
    command, pipe = [sys.executable, __file__], subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        drivers = UncheckedDrivers(process)
        assert drivers.answer() == "loaded\n"
        yield drivers


# ---------------------------------------------------------------- the process


def _serve() -> None:
    """Fork a driver for each line, until there are no more."""
    die_with_parent()
    _load()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # so that nobody has to wait for them
    print("loaded", flush=True)
    for line in sys.stdin:
        if not (pid := os.fork()):
            _drive(json.loads(line))
        print(pid, flush=True)


def _load() -> None:
    """What a driver would load when it comes to need it."""
    from holdfast.driver.adapters import lead_postgres  # noqa: F401
    from holdfast.driver.adapters.kubernetes import lease, wiring  # noqa: F401
    from holdfast.driver.adapters.rest import app, standby  # noqa: F401
    from holdfast.driver.adapters.sql import postgres  # noqa: F401


def _drive(order: dict[str, Any]) -> NoReturn:
    die_with_parent()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    nothing = os.open(os.devnull, os.O_RDWR)
    log = os.open(order["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for end, at in enumerate((nothing, nothing, log)):
        os.dup2(at, end)
    os.environ |= order["env"]
    vars(driver)["check_rights"] = _unasked
    os._exit(driver.run(order["words"]))


async def _unasked(settings: Settings) -> None:
    """In the place of `outside.check_rights`."""


if __name__ == "__main__":
    _serve()
