"""The host of one node: its init, the parent of its executor and daemon, the holder of its lease.

Started by the keeper (`python -m holdfast.keeper.host CONFIG`) or by the emulator inside a node's
namespaces. Starts the two again when they die, kills every orphan that it inherits, and ends the
whole node on SIGTERM or when no keeper answered for 30 s. Must start at once (small imports), and
must never touch what its children do. Writes `host.json` beside its configuration.
"""

import json
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from holdfast.keeper import processes
from holdfast.kit.backoff import full_jitter
from holdfast.kit.files import write_atomic
from holdfast.protocol import lease

STEADY_AFTER_S = 10.0
"""A process that lived this long starts again at once when it dies: its backoff is forgotten."""

END_WITHIN_S = 1.0
"""From SIGTERM to SIGKILL when the node ends: its processes have nothing to save."""


class Config(NamedTuple):
    """What the keeper says to a host, as a JSON file that only its owner may read."""

    node: str
    lease_host: str
    lease_port: int
    token: str  # of the lease
    environment: dict[str, str]  # added to that of the two processes
    commands: dict[str, list[str]]  # by process: "executor", "daemon"
    wait_for: str  # a file that must be there before they start, "" for none
    outlive_keeper_s: float = lease.HOST_OUTLIVES_KEEPER_S


class Charge:
    """One process in the host's care, over all its lives."""

    def __init__(self, name: str, command: list[str]) -> None:
        self.name = name
        self.command = command
        self.pid = 0
        self.starts = 0
        self.start_at_s = 0.0
        self._started_s = 0.0
        self._guard = -1  # our end of its stdin: it reads end-of-file when we are gone
        self._waits = self._new_waits()

    def start(self, environment: dict[str, str], log: Path, now_s: float) -> None:
        theirs, self._guard = os.pipe()
        self.pid = os.posix_spawn(
            self.command[0],
            self.command,
            environment,
            file_actions=[
                (os.POSIX_SPAWN_DUP2, theirs, 0),
                (os.POSIX_SPAWN_OPEN, 1, str(log), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644),
                (os.POSIX_SPAWN_DUP2, 1, 2),
            ],
            setsid=True,
            setsigmask=[],
        )
        os.close(theirs)
        self.starts += 1
        self._started_s = now_s

    def ended(self, now_s: float) -> None:
        """It died: decide when it starts again."""
        os.close(self._guard)
        self.pid = 0
        if now_s - self._started_s >= STEADY_AFTER_S:
            self._waits = self._new_waits()
        self.start_at_s = now_s + next(self._waits)

    def _new_waits(self) -> Iterator[float]:
        return full_jitter(base_s=0.1, cap_s=5.0)


class Host:
    """The loop: signals, the lease's socket, and the two charges."""

    def __init__(self, config: Config, folder: Path) -> None:
        self.config = config
        self.folder = folder
        self.incarnation = os.urandom(8).hex()
        self.charges = [Charge(name, command) for name, command in config.commands.items()]
        self._environment = os.environ | config.environment
        self._ending = False
        self._orphans_possible = False
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        self._wake = self._listen_to_signals()

    def run(self) -> None:
        """Keep the node until it has to end, then end it."""
        renew_at_s = answered_s = time.monotonic()
        while not self._ending:
            now_s = time.monotonic()
            if now_s - answered_s > self.config.outlive_keeper_s:
                break
            if now_s >= renew_at_s:
                self._renew()
                renew_at_s = now_s + lease.RENEW_EVERY_S
            self._care(now_s)
            timeout_s = max(0.0, renew_at_s - time.monotonic())
            lease_fd = self._socket.fileno()
            ready = select.select([self._wake, lease_fd], [], [], timeout_s)[0]
            if self._wake in ready:
                os.read(self._wake, 4_096)
            if lease_fd in ready and self._answered():
                answered_s = time.monotonic()
        self._end()

    def _listen_to_signals(self) -> int:
        """A file descriptor that becomes readable with each signal; SIGTERM and SIGINT end us."""
        read_end, write_end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._asked_to_end)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        return read_end

    def _asked_to_end(self, *_: object) -> None:
        self._ending = True

    def _renew(self) -> None:
        mine = lease.Renewal(self.config.node, self.incarnation, self.config.token)
        try:
            self._socket.sendto(lease.pack(mine), (self.config.lease_host, self.config.lease_port))
        except OSError:
            return  # the link is down or full: the lease runs out by itself, which is its point

    def _answered(self) -> bool:
        """Whether what came is our keeper's answer to a renewal."""
        try:
            datagram = self._socket.recv(lease.MAX_DATAGRAM_BYTES)
        except OSError:
            return False  # "connection refused" of an earlier datagram: no keeper there
        answer = lease.unpack(datagram)
        return answer is not None and answer.token == self.config.token

    def _care(self, now_s: float) -> None:
        """Reap, kill orphans, and start again what died once nothing of it is left."""
        changed = self._reap(now_s)
        if self._kill_orphans():
            return  # what they leave comes to us by another SIGCHLD
        for charge in self.charges:
            if charge.pid == 0 and now_s >= charge.start_at_s and self._may_start():
                log = self.folder / f"{charge.name}.log"
                charge.start(self._environment, log, now_s)
                changed = True
        if changed:
            self._say()

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

    def _may_start(self) -> bool:
        return not self.config.wait_for or Path(self.config.wait_for).exists()

    def _say(self) -> None:
        """Leave pids (as this host sees them) and incarnation where a person or a tool can look."""
        said = {
            "node": self.config.node,
            "incarnation": self.incarnation,
            "pid": os.getpid(),
            **{charge.name: charge.pid for charge in self.charges},
            "starts": {charge.name: charge.starts for charge in self.charges},
        }
        write_atomic(self.folder / "host.json", json.dumps(said).encode())

    def _end(self) -> None:
        """SIGTERM to the two, a moment, then SIGKILL to whatever is still below us."""
        pids = [charge.pid for charge in self.charges if charge.pid]
        for pid in pids:
            processes.kill(pid, signal.SIGTERM)
        processes.wait_gone(pids, END_WITHIN_S)
        deadline_s = time.monotonic() + END_WITHIN_S
        while (left := processes.children_of(os.getpid())) and time.monotonic() < deadline_s:
            for pid in left:
                processes.kill(pid)
            processes.wait_gone(left, deadline_s - time.monotonic())
            processes.reap()


def read_config(path: Path) -> Config:
    return Config(**json.loads(path.read_bytes()))


def main() -> None:
    path = Path(sys.argv[1])
    processes.become_subreaper()
    Host(read_config(path), path.parent).run()


if __name__ == "__main__":
    main()
