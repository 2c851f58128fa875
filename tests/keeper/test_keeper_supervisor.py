"""The supervisor of a node goes on where the disk is full or a process cannot be started."""

import errno
import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest
from waiting import eventually

from holdfast.keeper import processes
from holdfast.keeper import supervisor as supervisors
from holdfast.keeper.supervisor import Supervisor

SLEEPER = ["/bin/sleep", "1000"]


class Alone:
    """A supervisor in this process, told of its own charges alone: not every child here is one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.supervisor: Supervisor | None = None

    def of(self, *command: str) -> Supervisor:
        self.supervisor = Supervisor({"daemon": list(command)}, os.environ, self.folder, told={})
        return self.supervisor

    def reap(self) -> dict[int, int]:
        charges = self.supervisor.charges if self.supervisor else []
        ended = [os.waitpid(charge.pid, os.WNOHANG) for charge in charges if charge.pid]
        return {pid: status for pid, status in ended if pid}

    def children_of(self, _: int) -> list[int]:
        return []

    def end(self) -> None:
        for charge in self.supervisor.charges if self.supervisor else []:
            if charge.pid:
                os.kill(charge.pid, signal.SIGKILL)
                os.waitpid(charge.pid, 0)
                charge.ended(0.0)


@pytest.fixture
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Alone]:
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD)
    before = {number: signal.getsignal(number) for number in numbers}
    made = Alone(tmp_path)
    monkeypatch.setattr(processes, "reap", made.reap)
    monkeypatch.setattr(processes, "children_of", made.children_of)
    yield made
    made.end()
    if made.supervisor is not None:
        os.close(made.supervisor.wake)
    if (wakes := signal.set_wakeup_fd(-1)) >= 0:
        os.close(wakes)
    for number, handler in before.items():
        signal.signal(number, handler)


def no_room(*_: object, **__: object) -> NoReturn:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_keeps_nobody_from_starting_again(
    alone: Alone, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    supervisor = alone.of(*SLEEPER)
    (charge,) = supervisor.charges
    monkeypatch.setattr(supervisors, "write_atomic", no_room)
    supervisor.care(time.monotonic())
    first = charge.pid
    os.kill(first, signal.SIGKILL)

    def started_again() -> bool:
        supervisor.care(time.monotonic())
        return charge.pid not in (0, first)

    eventually(started_again, "another process")
    assert processes.start_ticks(charge.pid) is not None
    assert "host.json could not be written" in (said := capfd.readouterr().err)
    assert "No space left on device" in said


def test_a_command_that_is_not_there_is_tried_again_and_leaves_nothing_open(
    alone: Alone, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "program"
    supervisor = alone.of(str(program))
    (charge,) = supervisor.charges
    before = os.listdir("/proc/self/fd")
    now_s = time.monotonic()
    supervisor.care(now_s)
    assert (charge.pid, charge.starts) == (0, 0)
    assert charge.start_at_s > now_s, "it has a backoff"
    assert os.listdir("/proc/self/fd") == before
    assert "daemon could not be started, it is tried again" in capfd.readouterr().err
    program.write_text("#!/bin/sh\nexec sleep 1000\n")
    program.chmod(0o755)
    supervisor.care(charge.start_at_s)
    assert processes.start_ticks(charge.pid) is not None
    assert json.loads((tmp_path / "host.json").read_bytes())["starts"] == {"daemon": 1}


def test_a_log_that_cannot_be_opened_ends_no_supervisor(alone: Alone, tmp_path: Path) -> None:
    (tmp_path / "daemon.log").symlink_to(tmp_path / "no such folder" / "log")
    supervisor = alone.of(*SLEEPER)
    supervisor.care(time.monotonic())
    assert [charge.pid for charge in supervisor.charges] == [0]
