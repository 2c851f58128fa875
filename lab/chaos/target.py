"""Finds the processes and files of a laboratory from outside: by mark, open files and namespaces.

Used by the injectors. Must not ask the driver or a node: whoever breaks things knows where they
are by looking.
"""

import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from holdfast.keeper import processes
from holdfast.keeper.state import KeeperState, NodeRecord
from holdfast.kit import procstat
from holdfast.lab.cluster import Lab

T = TypeVar("T")

OUTPUT = re.compile(
    r"/jobs/(?P<job>[^/]+)/attempt_(?P<attempt>\d+)/rank_(?P<rank>\d+)/stdout\.log$"
)


RENDEZVOUS = re.compile(r"rdzv-e(\d+)$")


class NotThere(Exception):
    """The target of a fault is not there; the message says what was looked for."""


def cluster(lab: Lab) -> KeeperState:
    state = lab.state()
    if state is None:
        raise NotThere("the emulated cluster has not started yet")
    return state


def nodes(lab: Lab) -> list[NodeRecord]:
    """Those that are not lost."""
    return [node for node in cluster(lab).nodes.values() if node.host_pid and not node.lost]


def rank_pids(lab: Lab, job: str) -> dict[int, int]:
    """By rank, the process of the newest attempt: whose standard output is the rank's log."""
    newest: dict[int, tuple[int, int]] = {}
    for pid in processes.marked(lab.run_id):
        found = OUTPUT.search(_output_of(pid))
        if not found or found["job"] != job or processes.start_ticks(pid) is None:
            continue
        if _output_of(_parent_of(pid)) == found.string:
            continue  # a child of the rank that writes to the same file
        place = (int(found["attempt"]), pid)
        newest[int(found["rank"])] = max(place, newest.get(int(found["rank"]), place))
    return {rank: pid for rank, (_, pid) in sorted(newest.items())}


def rank_pid(lab: Lab, job: str, rank: int, within_s: float = 10.0) -> int:
    """The rank's process, once it is there."""
    return wait_for(lambda: rank_pids(lab, job).get(rank), f"rank {rank} of {job}", within_s)


def child_of(pid: int, title: str) -> int | None:
    """A child process of this one that is called so."""
    mine = (each for each in processes.all_pids() if _parent_of(each) == pid)
    return next((each for each in mine if _title(each) == title), None)


def node_of(lab: Lab, pid: int) -> NodeRecord:
    """The node that a process belongs to, by the mark in its environment."""
    name = processes.environment_of(pid).get("HOLDFAST_NODE", "")
    try:
        return cluster(lab).nodes[name]
    except KeyError:
        raise NotThere(f"process {pid} belongs to no node") from None


def hosts_of(lab: Lab, job: str) -> list[NodeRecord]:
    """Nodes that carry ranks of the job, in rank order, each once; in a recovery once it has some.

    Raises `NotThere`.
    """
    ranks = wait_for(lambda: rank_pids(lab, job) or None, f"ranks of {job}", 10.0)
    carriers = [node_of(lab, pid) for pid in ranks.values()]
    return list({node.name: node for node in carriers}.values())


def process_pid(lab: Lab, node: NodeRecord, process: str, within_s: float = 10.0) -> int:
    """One of `PROCESSES` of the node, as a pid of this machine."""
    look = PROCESSES[process]
    return wait_for(lambda: look(lab, node), f"a {process} on {node.name}", within_s)


def wait_for(fact: Callable[[], T | None], what: str, within_s: float) -> T:
    """What `fact` finds, once it finds something. Raises `NotThere`."""
    deadline_s = time.monotonic() + within_s
    while not (found := fact()):
        if time.monotonic() > deadline_s:
            raise NotThere(f"not there within {within_s:g} s: {what}")
        time.sleep(0.005)
    return found


def _running(module: str) -> Callable[[Lab, NodeRecord], int | None]:
    """Looks for what was started as `python -m MODULE` on a node."""
    words = f"\0-m\0{module}\0".encode()

    def look(lab: Lab, node: NodeRecord) -> int | None:
        found = processes.marked(lab.run_id, HOLDFAST_NODE=node.name)
        return next((pid for pid in found if words in processes.command_of(pid)), None)

    return look


def _launcher(lab: Lab, node: NodeRecord) -> int | None:
    """The executor's child that serves forks and has not become a rank or a store itself."""
    executor = process_pid(lab, node, "executor")
    for pid in processes.marked(lab.run_id, HOLDFAST_NODE=node.name):
        serves = _parent_of(pid) == executor and b"\0serve\0" in processes.command_of(pid)
        became = OUTPUT.search(_output_of(pid)) or _title(pid).startswith(("rank-", "rdzv-"))
        if serves and not became:
            return pid
    return None


def _rendezvous(lab: Lab, node: NodeRecord) -> int | None:
    """The process that serves the rendezvous of the newest epoch."""
    titles = {pid: _title(pid) for pid in processes.marked(lab.run_id, HOLDFAST_NODE=node.name)}
    epochs = {pid: RENDEZVOUS.match(title) for pid, title in titles.items()}
    hosts = [(int(each[1]), pid) for pid, each in epochs.items() if each]
    return max(hosts)[1] if hosts else None


PROCESSES = {
    "executor": _running("holdfast.executor.main"),
    "daemon": _running("holdfast.daemon.main"),
    "agent": _running("holdfast.checkpoint.agent"),
    "launcher": _launcher,
    "rendezvous": _rendezvous,
}
"""What runs on a node beside its ranks, its init and its orphans."""


def _output_of(pid: int) -> str:
    try:
        return os.readlink(f"/proc/{pid}/fd/1")
    except OSError:
        return ""


def _parent_of(pid: int) -> int:
    seen = procstat.stat(pid)
    return seen.parent if seen is not None else 0


def _title(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""
