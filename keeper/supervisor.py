"""Keeps a node's executor and daemon alive: starts them again when they die, kills their orphans.

Used by the node's host and by a pod's first process. Must start at once (small imports), and must
never touch what its charges do. Writes `host.json` into its folder. A full disk, or a machine that
has no room for a process, must not end it: with it would go the whole node.
"""

import contextlib
import json
import os
import signal
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from holdfast.keeper import processes
from holdfast.kit.backoff import full_jitter
from holdfast.kit.files import write_atomic
from holdfast.protocol.nodeenv import LEAVE_SIGNAL

STEADY_AFTER_S = 10.0
"""A process that lived this long starts again at once when it dies: its backoff is forgotten."""

END_WITHIN_S = 1.0
"""From SIGTERM to SIGKILL when the node ends: its processes have nothing to save. And from SIGKILL
to the end of a process: one that takes longer is stuck in the kernel, and is not waited for."""

MOST_ROUNDS = 100
"""Of SIGKILL to what is below us: what dies leaves us its own children. No time is given for all of
them: we may stand still ourselves, and that is no reason to leave anybody."""


class Begun(NamedTuple):
    """A process that is our child already, and our end of the pipe that is its stdin."""

    pid: int
    guard: int


class Charge:
    """One process in the supervisor's care, over all its lives."""

    def __init__(self, name: str, command: list[str], log: Path | None) -> None:
        self.name = name
        self.command = command
        self.pid = 0
        self.starts = 0
        self.asked = False  # to leave
        self.start_at_s = 0.0
        self._log = log
        self._started_s = 0.0
        self._guard = -1  # our end of its stdin: it reads end-of-file when we are gone
        self._waits = self._new_waits()

    def start(self, environment: Mapping[str, str], now_s: float) -> None:
        """Start it. Raises `OSError` with nothing left open, and the time of the next try set."""
        try:
            self.pid = self._spawn(environment)
        except OSError:
            self._start_later(now_s)
            raise
        self.starts += 1
        self._started_s = now_s

    def begun(self, begun: Begun, now_s: float) -> None:
        """It runs: somebody started it for us."""
        self.pid, self._guard = begun
        os.set_inheritable(self._guard, False)
        self.starts += 1
        self._started_s = now_s

    def ended(self, now_s: float) -> None:
        """It died: decide when it starts again."""
        os.close(self._guard)
        self.pid = 0
        if now_s - self._started_s >= STEADY_AFTER_S:
            self._waits = self._new_waits()
        self._start_later(now_s)

    def _start_later(self, now_s: float) -> None:
        self.start_at_s = now_s + next(self._waits)

    def _spawn(self, environment: Mapping[str, str]) -> int:
        theirs, ours = os.pipe()
        try:
            pid = os.posix_spawn(
                self.command[0],
                self.command,
                environment,
                file_actions=[(os.POSIX_SPAWN_DUP2, theirs, 0), *self._output()],
                setsid=True,
                setsigmask=[],
            )
        except OSError:
            os.close(ours)
            raise
        finally:
            os.close(theirs)
        self._guard = ours
        return pid

    def _output(self) -> list[tuple[object, ...]]:
        """Where it writes: its log, else where we write."""
        if self._log is None:
            return []
        append = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        return [
            (os.POSIX_SPAWN_OPEN, 1, str(self._log), append, 0o644),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ]

    def _new_waits(self) -> Iterator[float]:
        return full_jitter(base_s=0.1, cap_s=5.0)


class Supervisor:
    """The charges of one node. `wake` is readable with each signal: then `care` is due.

    `ending`: we were told to end; `hurried`: once more.
    `begun`: charges that run already. `told`: what else `host.json` says. `logs`: a file in
    `folder` for each charge, else our output.
    """

    def __init__(
        self,
        commands: Mapping[str, list[str]],
        environment: Mapping[str, str],
        folder: Path,
        *,
        told: Mapping[str, str],
        wait_for: str = "",
        logs: bool = True,
        begun: Mapping[str, Begun] = MappingProxyType({}),
    ) -> None:
        self.ending = False
        self.hurried = False
        self.charges = [
            Charge(name, command, folder / f"{name}.log" if logs else None)
            for name, command in commands.items()
        ]
        for charge in self.charges:
            if charge.name in begun:
                charge.begun(begun[charge.name], time.monotonic())
        self._environment = environment
        self._folder = folder
        self._told = told
        self._wait_for = wait_for
        self._orphans_possible = False
        self.wake = self._listen_to_signals()

    def care(self, now_s: float) -> None:
        """Reap, kill orphans, and start again what died once nothing of it is left."""
        changed = self._reap(now_s)
        if self._kill_orphans():
            return  # what they leave comes to us by another SIGCHLD
        for charge in self.charges:
            if charge.pid == 0 and now_s >= charge.start_at_s and self._may_start():
                changed |= self._start(charge, now_s)
        if changed:
            self._say()

    def heard(self) -> None:
        """`wake` was readable."""
        os.read(self.wake, 4_096)

    def let_leave(self, name: str, within_s: float) -> bool:
        """Ask a charge to end when it can, and wait a moment. False: it is still there."""
        charge = next(each for each in self.charges if each.name == name)
        if not charge.pid:
            return True
        if not charge.asked:
            charge.asked = processes.kill(charge.pid, LEAVE_SIGNAL)
        return processes.wait_gone([charge.pid], within_s)

    def end(self) -> None:
        """SIGTERM to the charges, a moment, then SIGKILL to whatever is still below us."""
        pids = [charge.pid for charge in self.charges if charge.pid]
        for pid in pids:
            processes.kill(pid, signal.SIGTERM)
        processes.wait_gone(pids, END_WITHIN_S)
        for _ in range(MOST_ROUNDS):
            if not (left := processes.children_of(os.getpid())):
                break
            for pid in left:
                processes.kill(pid)
            if not processes.wait_gone(left, END_WITHIN_S):
                break
            processes.reap()

    def _listen_to_signals(self) -> int:
        """A descriptor that becomes readable with each signal; SIGTERM and SIGINT end us."""
        read_end, write_end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._asked_to_end)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        return read_end

    def _asked_to_end(self, *_: object) -> None:
        self.hurried, self.ending = self.ending, True

    def _reap(self, now_s: float) -> bool:
        ended = processes.reap()
        mine = [charge for charge in self.charges if charge.pid in ended]
        for charge in mine:
            charge.ended(now_s)
        self._orphans_possible |= bool(ended)
        return bool(mine)

    def _kill_orphans(self) -> int:
        """Kill every child that is not a charge: it outlived the executor or daemon above it."""
        if not self._orphans_possible:
            return 0
        ours = {charge.pid for charge in self.charges}
        orphans = [pid for pid in processes.children_of(os.getpid()) if pid not in ours]
        self._orphans_possible = bool(orphans)
        return sum(processes.kill(pid) for pid in orphans)

    def _start(self, charge: Charge, now_s: float) -> bool:
        """Whether it was started; else it is tried again after its backoff."""
        try:
            charge.start(self._environment, now_s)
        except OSError as error:
            _warn(f"{charge.name} could not be started, it is tried again: {error}")
            return False
        return True

    def _may_start(self) -> bool:
        return not self._wait_for or Path(self._wait_for).exists()

    def _say(self) -> None:
        """Leave pids (as seen from here) where a person can look; nothing depends on them."""
        said = {
            **self._told,
            "pid": os.getpid(),
            **{charge.name: charge.pid for charge in self.charges},
            "starts": {charge.name: charge.starts for charge in self.charges},
        }
        path = self._folder / "host.json"
        try:
            write_atomic(path, json.dumps(said).encode())
        except OSError as error:
            _warn(f"{path} could not be written, it says what was: {error}")


def _warn(said: str) -> None:
    """A line in our own log, with no import and no buffer; lost where that is on the full disk."""
    with contextlib.suppress(OSError):
        os.write(2, f"holdfast supervisor: {said}\n".encode())
