"""What a keeper must not forget, in `keeper.json`: its run, its nodes' hosts, marks, allocations.

Written by the keeper alone; read by the keeper that comes after it, by the injectors of `lab`, and
by whoever looks for leftovers.
"""

import secrets
from pathlib import Path

import msgspec

from holdfast.kit.files import write_atomic


class NodeRecord(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One node and where its pieces are, as seen from outside the node."""

    name: str
    folder: str  # host.json, logs, scratch
    memory: str
    address: str
    rack: str = ""
    host_pid: int = 0
    host_start_ticks: int = 0  # with the pid: that process and no other
    interface: str = ""  # as the node sees it
    switch_interface: str = ""  # the other end of its link
    cgroup: str = ""
    lost: bool = False  # its host died, and nobody starts it again
    job: str = ""  # allocated to
    distrusted: str = ""  # the reason, "" for none
    incident: int = 0


class KeeperState(msgspec.Struct, kw_only=True, omit_defaults=True):
    """All of it."""

    run_id: str
    token: str  # of the lease
    lease_host: str
    lease_port: int = 0
    probe_port: int = 0
    kind: str = ""  # what the nodes are made of, in a sentence
    switch_pid: int = 0
    switch_start_ticks: int = 0
    switch_network: int = 0  # inode of its network namespace, to look for what is left of it
    nodes: dict[str, NodeRecord] = {}


def new_state(run_id: str, lease_host: str) -> KeeperState:
    return KeeperState(run_id=run_id, token=secrets.token_hex(16), lease_host=lease_host)


def state_path(root: Path) -> Path:
    return root / "keeper.json"


def socket_path(root: Path) -> Path:
    return root / "keeper.sock"


def load(root: Path) -> KeeperState | None:
    """What the last keeper left here, or None. Raises `ValueError` where it is not ours."""
    path = state_path(root)
    if not path.exists():
        return None
    try:
        return msgspec.json.decode(path.read_bytes(), type=KeeperState)
    except msgspec.DecodeError as error:
        raise ValueError(f"{path}: {error}. Remove the file, or use another --state.") from error


def save(root: Path, state: KeeperState) -> None:
    write_atomic(state_path(root), msgspec.json.encode(state), mode=0o600)
