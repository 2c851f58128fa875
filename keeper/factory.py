"""How a node comes to be: the port between the keeper and what nodes are made of.

`LocalNodes` makes nodes of this machine itself, for `holdfast run`: one process tree each, in the
machine's own network. The emulator has another factory, whose nodes are namespaces.
"""

import json
import os
import signal
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from holdfast.keeper import processes, warmed
from holdfast.keeper.host import Config, read_config
from holdfast.keeper.memory import Memory, memory_root
from holdfast.keeper.state import KeeperState, NodeRecord
from holdfast.kit.files import private_folder, write_atomic
from holdfast.protocol.forkserving import Program
from holdfast.protocol.nodeenv import Drivers

HOST, EXECUTOR = "holdfast.keeper.host", "holdfast.executor.main"
COMMANDS = {
    "executor": [sys.executable, "-P", "-m", EXECUTOR],
    "daemon": [sys.executable, "-P", "-m", "holdfast.daemon.main"],
}


class NodeFactory(Protocol):
    """Makes and removes nodes. It must not decide whether they live: their leases do."""

    reboots: bool
    """Whether the keeper starts a host again that has died."""

    def prepare(self, state: KeeperState) -> None:
        """Have what all nodes share; called at each start of a keeper, idempotent."""
        ...

    def start(self, state: KeeperState, nodes: Sequence[NodeRecord]) -> Sequence[int | OSError]:
        """Start the hosts of these nodes; their pids, in order, or why one could not be started.

        Raises `OSError` where none could.
        """
        ...

    def tend(self, state: KeeperState) -> bool:
        """Called ten times a second: counters and the like. True where the state changed."""
        ...

    def remove(self, state: KeeperState, node: NodeRecord) -> None:
        """Clean up what a dead host may have left of its node."""
        ...

    def close(self, state: KeeperState) -> None:
        """Remove what all nodes shared: the keeper ends for good."""
        ...


def with_our_python(path: str) -> str:
    """`path` with our interpreter's folder first: `python` in a job's command means ours."""
    ours = str(Path(sys.executable).parent)
    return path if path.split(os.pathsep)[0] == ours else ours + os.pathsep + path


class NodeNeeds:
    """What a node's processes are told, the same in every factory."""

    def __init__(
        self,
        *,
        root: Path,
        driver: Drivers,
        token_file: Path | None,
        commands: dict[str, list[str]] | None = None,
    ) -> None:
        """`root`: the keeper's folder. `token_file`: None where its processes come with a token,
        and need not wait for one.
        """
        self._root = root
        self.driver = driver
        self.token_file = token_file
        self.commands = commands or COMMANDS

    def write(self, state: KeeperState, node: NodeRecord, driver: Drivers | None = None) -> Path:
        """Write the host's configuration into the node's folder; where it is."""
        folder = Path(node.folder)
        private_folder(folder)
        environment = {
            processes.RUN_MARK: state.run_id,
            "HOLDFAST_NODE": node.name,
            "HOLDFAST_NODE_ADDRESS": node.address,
            "HOLDFAST_IFNAME": node.interface,
            **(driver or self.driver).environment(),
            "HOLDFAST_NODE_TOKEN_FILE": str(self.token_file or ""),
            "HOLDFAST_SCRATCH": str(folder / "scratch"),
            "HOLDFAST_MEMORY": node.memory,
            "HOLDFAST_PROBE_PORT": str(state.probe_port),
            "PATH": with_our_python(os.environ.get("PATH", os.defpath)),
        }
        config = Config(
            node=node.name,
            root=str(self._root),
            lease_host=state.lease_host,
            lease_port=state.lease_port,
            token=state.token,
            environment=environment,
            commands=self.commands,
            wait_for=str(self.token_file or ""),
        )
        path = folder / "host.config.json"
        write_atomic(path, json.dumps(config._asdict()).encode(), mode=0o600)
        return path


class LocalNodes:
    """Nodes that are this machine: a process tree each, loopback addresses, /dev/shm as memory."""

    def __init__(self, needs: NodeNeeds, *, reboots: bool = True) -> None:
        self.reboots = reboots
        self._needs = needs
        self._asker = warmed.Asker()
        self._had_one: set[str] = set()
        self._memory = Memory()

    def prepare(self, state: KeeperState) -> None:
        self._memory.hold(state.run_id)
        state.kind = state.kind or "processes of this machine"
        for node in state.nodes.values():
            node.memory = node.memory or str(memory_root(state.run_id) / node.name)

    def start(self, state: KeeperState, nodes: Sequence[NodeRecord]) -> list[int | OSError]:
        return [self._start(state, node) for node in nodes]

    def tend(self, state: KeeperState) -> bool:
        """Nothing: the machine has counters of its own."""
        return False

    def remove(self, state: KeeperState, node: NodeRecord) -> None:
        processes.kill_marked(state.run_id, HOLDFAST_NODE=node.name)

    def close(self, state: KeeperState) -> None:
        self._memory.remove(state.run_id)

    def _start(self, state: KeeperState, node: NodeRecord) -> int | OSError:
        try:
            config = self._needs.write(state, node)
            for folder in (Path(node.folder) / "scratch", Path(node.memory)):
                private_folder(folder)
            command = [sys.executable, "-P", "-m", HOST, str(config)]
            return self._forked(config, state, node) or spawn_host(command, state, node)
        except OSError as error:
            return error

    def _forked(self, config: Path, state: KeeperState, node: NodeRecord) -> int | None:
        """The first host of a node, from a fork server; None where it has to be started."""
        if self._needs.commands is not COMMANDS or node.name in self._had_one:
            return None
        self._had_one.add(node.name)
        marks, folder = _marks(state, node), Path(node.folder)
        environment = os.environ | marks
        return self._asker.host(
            Program(
                module=HOST,
                title="host",
                arguments=(str(config),),
                environment=environment,
                log=str(folder / "host.log"),
            ),
            Program(
                module=EXECUTOR,
                title="executor",
                arguments=(),
                environment=environment | read_config(config).environment,
                log=str(folder / "executor.log"),
            ),
            marks,
        )


def spawn_host(
    command: list[str],
    state: KeeperState,
    node: NodeRecord,
    handed: dict[int, int] | None = None,
) -> int:
    """Start a host in a session of its own, with the node's marks in its environment; its pid.

    `handed`: descriptors of ours by the number that they have there.
    """
    log = str(Path(node.folder) / "host.log")
    marks = _marks(state, node)
    return os.posix_spawn(
        command[0],
        command,
        os.environ | marks,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644),
            (os.POSIX_SPAWN_DUP2, 1, 2),
            *((os.POSIX_SPAWN_DUP2, ours, theirs) for theirs, ours in (handed or {}).items()),
        ],
        setsid=True,
        setsigmask=[],
        setsigdef=[signal.SIGINT, signal.SIGTERM, signal.SIGCHLD],
    )


def _marks(state: KeeperState, node: NodeRecord) -> dict[str, str]:
    return {processes.RUN_MARK: state.run_id, "HOLDFAST_NODE": node.name}


def free_port() -> int:
    """A UDP port that is free now on loopback; for probes, the same on all nodes of a run."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
