"""Run a command where a node, or the switch, is: how faults are done from outside.

Used by chaos and the tests. Must not be used by anything that the driver's word depends on.
"""

import os
import subprocess
from pathlib import Path

from holdfast.keeper.state import KeeperState, NodeRecord
from holdfast.lab.emulator.namespaces import Kind, search_path


class NotPossible(Exception):
    """What this kind of cluster cannot do; the message says which kind can."""


def in_switch(state: KeeperState, *command: str) -> str:
    """Run `command` in the switch's network; what it printed. Raises `CalledProcessError`."""
    _need_links(state)
    return _enter(state.switch_pid, ["-n"], command)


def in_node(state: KeeperState, node: NodeRecord, *command: str) -> str:
    """Run `command` in the node's network, mounts and processes; what it printed."""
    _need_links(state)
    return _enter(node.host_pid, ["-n", "-m", "-p"], command)


NOBODY = "02:00:c6:12:ff:ff"
"""A hardware address that nothing on the switch has."""


def cut_one_way(state: KeeperState, sender: NodeRecord, receiver: NodeRecord) -> None:
    """Nothing that `sender` sends to `receiver` comes there any more; what comes back still does.

    Without an error on either side: its frames go to a hardware address that nobody has.
    """
    _neighbour(state, sender, "replace", receiver, "lladdr", NOBODY, "nud", "permanent")


def mend_one_way(state: KeeperState, sender: NodeRecord, receiver: NodeRecord) -> None:
    """Take `cut_one_way` back; the next packet looks the address up anew."""
    _neighbour(state, sender, "del", receiver)


def _neighbour(
    state: KeeperState, node: NodeRecord, change: str, other: NodeRecord, *more: str
) -> None:
    to = (other.address, *more, "dev", node.interface)
    in_node(state, node, "ip", "neigh", change, *to)


def path_in(node: NodeRecord, path: Path | str) -> Path:
    """How a file that the node sees at `path` is reached from outside."""
    return Path(f"/proc/{node.host_pid}/root") / str(path).lstrip("/")


def _need_links(state: KeeperState) -> None:
    if state.kind.startswith(Kind.LOOPBACK):
        raise NotPossible(
            f"nodes are made of {state.kind}. Run as root, or where `unshare -Urn` works."
        )


def _enter(pid: int, namespaces: list[str], command: tuple[str, ...]) -> str:
    theirs = Path(f"/proc/{pid}/ns/user").stat().st_ino
    if theirs != Path("/proc/self/ns/user").stat().st_ino:
        namespaces = ["-U", "--preserve-credentials", *namespaces]
    environment = os.environ | {"PATH": search_path()}
    done = subprocess.run(
        ["nsenter", "-t", str(pid), *namespaces, *command],
        check=False,
        capture_output=True,
        text=True,
        env=environment,
    )
    if done.returncode:
        said = f"{' '.join(command)}: {done.stderr.strip()}"
        raise subprocess.CalledProcessError(done.returncode, said)
    return done.stdout
