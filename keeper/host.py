"""The host of one node: its init, the parent of its executor and daemon, the holder of its lease.

Started by the keeper (`python -m holdfast.keeper.host CONFIG`) or by the emulator inside a node's
namespaces. Keeps the two alive and ends the whole node on SIGTERM or when there was no keeper for
30 s. Must start at once (small imports). Writes `host.json` beside its configuration.
"""

import json
import os
import select
import socket
import sys
import time
from pathlib import Path
from typing import NamedTuple

from holdfast.keeper import processes
from holdfast.keeper.lock import Patience
from holdfast.keeper.supervisor import Begun, Supervisor
from holdfast.protocol import lease


class Config(NamedTuple):
    """What the keeper says to a host, as a JSON file that only its owner may read."""

    node: str
    root: str  # the keeper's folder
    lease_host: str
    lease_port: int
    token: str  # of the lease
    environment: dict[str, str]  # added to that of the two processes
    commands: dict[str, list[str]]  # by process: "executor", "daemon"
    wait_for: str  # a file that must be there before they start, "" for none
    outlive_keeper_s: float = lease.HOST_OUTLIVES_KEEPER_S


class Host:
    """The loop: signals, the lease's socket, and what the supervisor has to do."""

    def __init__(self, config: Config, folder: Path, executor: Begun | None = None) -> None:
        """`executor`: where that runs already."""
        self.config = config
        self.incarnation = os.urandom(8).hex()
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        self._supervisor = Supervisor(
            config.commands,
            os.environ | config.environment,
            folder,
            told={"node": config.node, "incarnation": self.incarnation},
            wait_for=config.wait_for,
            begun={"executor": executor} if executor else {},
        )

    def run(self) -> None:
        """Keep the node until it has to end, then end it."""
        supervisor = self._supervisor
        renew_at_s = time.monotonic()
        config = self.config
        run_id = config.environment.get(processes.RUN_MARK, "")
        patience = Patience(Path(config.root), run_id, config.outlive_keeper_s, renew_at_s)
        while not supervisor.ending:
            now_s = time.monotonic()
            if patience.is_over(now_s):
                break
            if now_s >= renew_at_s:
                self._renew()
                renew_at_s = now_s + lease.RENEW_EVERY_S
            supervisor.care(now_s)
            timeout_s = max(0.0, renew_at_s - time.monotonic())
            lease_fd = self._socket.fileno()
            ready = select.select([supervisor.wake, lease_fd], [], [], timeout_s)[0]
            if supervisor.wake in ready:
                supervisor.heard()
            if lease_fd in ready and self._answered():
                patience.heard(time.monotonic())
        supervisor.end()

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


def read_config(path: Path) -> Config:
    return Config(**json.loads(path.read_bytes()))


def main() -> None:
    path = Path(sys.argv[1])
    processes.become_subreaper()
    begun = Begun(*map(int, sys.argv[2].split(":"))) if len(sys.argv) > 2 else None
    Host(read_config(path), path.parent, begun).run()


if __name__ == "__main__":
    main()
