"""The factory of emulated nodes: a namespace each, joined by links to one switch.

Given to the keeper by the emulator's main, which has put this process into the switch's network
namespace before. Must not say whether a node lives: its lease over its own link does.
"""

import contextlib
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from holdfast.keeper import processes
from holdfast.keeper.factory import NodeNeeds, spawn_host
from holdfast.keeper.state import KeeperState, NodeRecord
from holdfast.lab.emulator import cgroups, namespaces, node
from holdfast.lab.emulator.counters import Counters
from holdfast.protocol.nodeenv import Drivers

SWITCH_ADDRESS = "198.18.0.1"
"""Of 198.18.0.0/15, which RFC 2544 keeps for benchmarks: no real network has it."""

SWITCH_MAC = "02:00:c6:12:00:01"
"""A bridge without one takes that of a port, and another when that node is lost."""

GATEWAY_PORT = 7480
DRIVER_URL = f"http://{SWITCH_ADDRESS}:{GATEWAY_PORT}"
API_PORT = 7443
"""Of the gateway, behind which is a Kubernetes API server."""

API_NAME = "kubernetes.default.svc"
"""How nodes call it: a name that the certificate of every API server is good for."""

SERVICES = "services.json"
"""In the keeper's folder: what the gateway is kube-proxy for, see `gateway.Services`."""

HOSTS = "nodes/hosts"
"""Likewise: every node's /etc/hosts, one file for all."""

INTERFACE = "eth0"


class Sizes(NamedTuple):
    """What one node has."""

    memory_mib: int = 1_024
    scratch_mib: int = 256
    gpus: int = 0


def address_of(place: int) -> str:
    """The address of the node at `place`, counted from 0."""
    return f"198.18.{1 + place // 250}.{place % 250 + 1}"


class EmulatedNodes:
    """Nodes that are namespaces. A node that is lost stays lost."""

    reboots = False

    def __init__(self, needs: NodeNeeds, relays: dict[int, Path], root: Path, sizes: Sizes) -> None:
        """`relays`: what the gateway relays to, Unix sockets by its ports."""
        self._needs = needs
        self._relays = relays
        self._root = root
        self._sizes = sizes
        self._counters = Counters()
        self._cgroup: Path | None = None

    def prepare(self, state: KeeperState) -> None:
        self._cgroup, said = cgroups.parent_for(state.run_id)
        state.kind = f"{state.kind.partition(',')[0]}, {said}"
        for place, record in enumerate(state.nodes.values()):
            record.interface, record.switch_interface = INTERFACE, f"s{place + 1}"
            record.memory = str(Path(record.folder) / "memory")
        state.switch_network = Path("/proc/self/ns/net").stat().st_ino
        self._write_hosts(state)
        self._have_gateway(state)

    def start(self, state: KeeperState, nodes: Sequence[NodeRecord]) -> list[int]:
        births = [_Birth(state, record, self._command(state, record)) for record in nodes]
        pids = [birth.pid() for birth in births]
        self._connect(nodes, pids)
        for record, pid in zip(nodes, pids, strict=True):
            if self._cgroup is not None:
                record.cgroup = str(cgroups.join(self._cgroup, record.name, pid))
        for birth in births:
            birth.go()
        return pids

    def tend(self, state: KeeperState) -> bool:
        before = state.switch_pid
        self._have_gateway(state)
        self._counters.feed(list(state.nodes.values()))
        return state.switch_pid != before

    def remove(self, state: KeeperState, record: NodeRecord) -> None:
        """The kernel has ended its processes with its init; its link may linger for a moment."""
        processes.kill_marked(state.run_id, HOLDFAST_NODE=record.name)
        with contextlib.suppress(subprocess.CalledProcessError):  # already gone with its namespace
            namespaces.ip([f"link del {record.switch_interface}"])
        with contextlib.suppress(OSError):
            Path(record.cgroup or "/nonexistent").rmdir()

    def close(self, state: KeeperState) -> None:
        if self._gateway_lives(state):
            processes.kill(state.switch_pid)
            processes.wait_gone([state.switch_pid], 1.0)
        state.switch_pid = state.switch_start_ticks = 0
        for group in cgroups.of_run(state.run_id):
            cgroups.remove(group)

    # ------------------------------------------------------------ helpers

    def _command(self, state: KeeperState, record: NodeRecord) -> list[str]:
        config = self._needs.write(state, record, Drivers([DRIVER_URL]))
        for name in ("scratch", "memory"):
            (Path(record.folder) / name).mkdir(exist_ok=True, mode=0o700)
        sizes = [str(size) for size in self._sizes]
        return [sys.executable, "-m", "holdfast.lab.emulator.node", str(config), *sizes]

    def _connect(self, nodes: Sequence[NodeRecord], pids: list[int]) -> None:
        """A link for each node, one end in the node, the other on the bridge."""
        lines = []
        for record, pid in zip(nodes, pids, strict=True):
            end = record.switch_interface
            lines.append(f"link add {end} type veth peer name {record.interface} netns {pid}")
            lines.append(f"link set {end} master switch up")
        namespaces.ip(lines)

    def _write_hosts(self, state: KeeperState) -> None:
        names = [f"{record.address} {record.name}" for record in state.nodes.values()]
        names += [f"{SWITCH_ADDRESS} {API_NAME}"] if API_PORT in self._relays else []
        path = self._root / HOSTS
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(["127.0.0.1 localhost", *names]) + "\n")

    def _gateway_lives(self, state: KeeperState) -> bool:
        pid = state.switch_pid
        return pid > 0 and processes.start_ticks(pid) == state.switch_start_ticks

    def _have_gateway(self, state: KeeperState) -> None:
        if self._gateway_lives(state):
            return
        command = [sys.executable, "-m", "holdfast.lab.emulator.gateway"]
        command += ["--host", SWITCH_ADDRESS, "--state", str(self._root)]
        command += ["--services", str(self._root / SERVICES)]
        for port, behind in self._relays.items():
            command += ["--relay", f"{port}={behind}"]
        log = str(self._root / "gateway.log")
        state.switch_pid = os.posix_spawn(
            command[0],
            command,
            os.environ,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644),
                (os.POSIX_SPAWN_DUP2, 1, 2),
            ],
            setsid=True,
            setsigmask=[],
        )
        state.switch_start_ticks = processes.start_ticks(state.switch_pid) or 0


def make_switch() -> None:
    """The bridge, in the namespace of its own that this process is in."""
    namespaces.ip(
        [
            "link set lo up",
            f"link add switch address {SWITCH_MAC} type bridge",
            f"addr add {SWITCH_ADDRESS}/15 dev switch",
            "link set switch up",
        ]
    )


class _Birth:
    """A node on its way: its init is there, its link is not."""

    def __init__(self, state: KeeperState, record: NodeRecord, command: list[str]) -> None:
        self._says, theirs_to_say = os.pipe()
        theirs_to_hear, self._go = os.pipe()
        handed = {node.SAYS: theirs_to_say, node.HEARS: theirs_to_hear}
        self._outer = spawn_host(command, state, record, handed)
        os.close(theirs_to_say)
        os.close(theirs_to_hear)

    def pid(self) -> int:
        """The pid of the node's init. Raises `OSError` where it could not be made."""
        with os.fdopen(self._says) as said:
            text = said.read()
        os.waitpid(self._outer, 0)
        if not text:
            raise OSError("a node's namespaces could not be made: see its host.log")
        return int(text)

    def go(self) -> None:
        os.write(self._go, b"!")
        os.close(self._go)
