"""A rank is killed from outside: its job recovers within the very same pods, from their memory."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import psutil
import pytest
from shipped_driver import entries_in, shipped_driver
from trained_pods import RANKS, Training, check_losses
from waiting import eventually

from holdfast.driver.core.effects import Instruct
from holdfast.keeper import processes
from holdfast.lab.chaos.target import OUTPUT
from holdfast.lab.emulator.kubelet.joined import Joined
from holdfast.lab.kubernetes.plane import ControlPlane
from holdfast.protocol import nodeenv
from holdfast.protocol.messages import Restore

pytestmark = [pytest.mark.kubernetes, pytest.mark.cluster, pytest.mark.torch, pytest.mark.slow]

NAMESPACE = "in-place"
SUPERVISOR, EXECUTOR, LAUNCHER = "holdfast.keeper.pod", "holdfast.executor.main", "launcher"


class Kept(NamedTuple):
    """What is to outlive a rank, of one pod: processes of this machine, each with its birth."""

    supervisor: psutil.Process
    executor: psutil.Process
    launcher: psutil.Process


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("place")


@pytest.fixture(scope="module")
def nodes(plane: ControlPlane, folder: Path) -> Iterator[Joined]:
    with shipped_driver(plane, folder, namespace=NAMESPACE, nodes=RANKS) as joined:
        yield joined


def test_a_recovery_in_place_keeps_pods_supervisors_launchers_and_what_memory_has(
    plane: ControlPlane, folder: Path, nodes: Joined
) -> None:
    training = Training(plane, "kept", NAMESPACE, folder / "shared")
    training.apply()
    epoch = training.in_epoch_after(0)
    training.trains_on()
    pods, kept = training.pods(), kept_by_node(nodes)
    os.kill(rank_of(nodes, 0), signal.SIGKILL)
    again = training.in_epoch_after(epoch)
    training.trains_on()
    assert (training.pods(), kept_by_node(nodes)) == (pods, kept)
    assert [pod.restarts for pod in pods] == [0] * RANKS
    restored = restores(folder, again)
    assert {(each.source, each.epoch) for each in restored} == {("memory", epoch)}
    assert {life.step for life in training.lives() if life.epoch == again} == {
        each.step for each in restored
    }
    assert training.end()["restarts"] == 1
    check_losses(training)


def kept_by_node(nodes: Joined) -> dict[str, Kept]:
    """What is in each node's pod, once its launcher is there."""

    def all_there() -> dict[str, Kept]:
        found = {node: _kept(nodes, node) for node in nodes.names}
        return {node: kept for node, kept in found.items() if kept} if all(found.values()) else {}

    return eventually(all_there, "each pod has a launcher")


def _kept(nodes: Joined, node: str) -> Kept | None:
    ours = [each for each in _marked(nodes) if node_of(each) == node]
    supervisors = [each for each in ours if SUPERVISOR in said(each) and innermost(each) == 1]
    executors = [each for each in ours if EXECUTOR in said(each) and parent(each) in supervisors]
    ranks = {pid for pid, _ in ranks_of(nodes)}
    launchers = [
        each
        for each in ours
        if LAUNCHER in said(each) and parent(each) in executors and each.pid not in ranks
    ]
    if (len(supervisors), len(executors)) != (1, 1) or not launchers:
        return None
    oldest = min(launchers, key=lambda each: (each.create_time(), each.pid))
    return Kept(supervisors[0], executors[0], oldest)  # others it has forked, as the store's


def rank_of(nodes: Joined, rank: int) -> int:
    """Its process on this machine."""
    return max(pid for pid, number in ranks_of(nodes) if number == rank)


def ranks_of(nodes: Joined) -> list[tuple[int, int]]:
    """Processes whose standard output is a rank's log, and the rank."""
    found = []
    for each in _marked(nodes):
        try:
            output = OUTPUT.search(os.readlink(f"/proc/{each.pid}/fd/1"))
        except OSError:
            continue  # it has ended
        if output:
            found.append((each.pid, int(output["rank"])))
    return found


def restores(folder: Path, epoch: int) -> list[Restore]:
    """What the ranks of this epoch were told to begin from, node by node."""
    effects = [effect for entry in entries_in(folder) for effect in entry.effects]
    told = [each.desired for each in effects if isinstance(each, Instruct)]
    return [each.restore for each in told if each.epoch == epoch and each.seats and each.restore]


def _marked(nodes: Joined) -> list[psutil.Process]:
    found = []
    for pid in processes.marked(nodes.run_id):
        try:
            found.append(psutil.Process(pid))
        except psutil.NoSuchProcess:
            continue
    return found


def node_of(process: psutil.Process) -> str:
    return str(processes.environment_of(process.pid).get(nodeenv.NODE, ""))


def said(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        return ""


def parent(process: psutil.Process) -> psutil.Process | None:
    """None, too, where it is gone by now: launchers fork what lives for a moment."""
    try:
        return process.parent()
    except psutil.NoSuchProcess:
        return None


def innermost(process: psutil.Process) -> int:
    """Its number in the namespace that it is in."""
    try:
        status = Path(f"/proc/{process.pid}/status").read_text()
    except OSError:
        return 0
    (numbers,) = (line for line in status.splitlines() if line.startswith("NSpid:"))
    return int(numbers.split()[-1])
