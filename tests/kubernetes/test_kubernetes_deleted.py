"""A TrainingJob that is deleted while its ranks run, and while it recovers: nothing of it is left.

One driver with the shipped role, two emulated nodes; what a job leaves is seen on the machine, in
the API server and in the journal.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from shipped_driver import shipped_driver
from waiting import eventually

from holdfast.driver.adapters.journal_sqlite import read_only
from holdfast.driver.adapters.kubernetes import paths
from holdfast.driver.core.encode import decode
from holdfast.driver.core.model import State
from holdfast.driver.settings import Settings
from holdfast.keeper import processes
from holdfast.lab.emulator.kubelet.joined import Joined
from holdfast.lab.kubernetes.plane import ControlPlane

pytestmark = [pytest.mark.kubernetes, pytest.mark.cluster, pytest.mark.slow]

NAMESPACE = "deleted"
FOR_EVER = ["python", "-c", "import time\nwhile True: time.sleep(0.1)"]


class Play:
    """The nodes, and jobs that need both of them, as a person sees them."""

    def __init__(self, plane: ControlPlane, nodes: Joined, state: Path) -> None:
        self.plane = plane
        self.nodes = nodes
        self._journal = Settings(state=state).paths.journal
        self.idle = self.processes()

    def kubectl(self, *words: str, **more: Any) -> str:
        return self.plane.kubectl("-n", NAMESPACE, *words, **more)

    def made(self, job: str, command: list[str]) -> None:
        spec: dict[str, Any] = {"nodes": 2, "ranksPerNode": 2, "command": command}
        spec["pod"] = {"image": "holdfast-executor:1"}
        document = {"apiVersion": "holdfast.dev/v1alpha1", "kind": "TrainingJob"}
        document |= {"metadata": {"name": job}, "spec": spec}
        self.kubectl("apply", "-f", "-", input=json.dumps(document))

    def runs(self, job: str) -> None:
        """Have it made, and return once it runs."""
        self.made(job, FOR_EVER)
        eventually(lambda: self.phase(job) == "Running", f"{job} runs")

    def phase(self, job: str) -> str:
        found = self.plane.read(paths.training_jobs(NAMESPACE, job))
        return str(found.get("status", {}).get("phase", ""))

    def pods(self) -> list[dict[str, Any]]:
        """Of all jobs, also those that end."""
        found: list[dict[str, Any]] = self.plane.read(paths.pods(NAMESPACE))["items"]
        return found

    def processes(self) -> int:
        """Of the nodes, and of what runs there."""
        return sum(1 for _ in processes.marked(self.nodes.run_id))

    def state(self) -> State:
        """What the driver has written down."""
        journal, _ = read_only(self._journal)
        try:
            encoded = journal.load()[0]
        finally:
            journal.close()
        assert encoded is not None
        return decode(encoded)

    def nothing_is_left(self) -> None:
        eventually(lambda: not self.pods(), "no pod is left")
        eventually(lambda: self.processes() == self.idle, "no rank, executor or daemon is left")
        eventually(lambda: not self.state().jobs, "the driver has no job")
        eventually(lambda: not any(n.job for n in self.state().nodes.values()), "nodes are free")


@pytest.fixture(scope="module")
def play(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Play]:
    folder = tmp_path_factory.mktemp("deleted")
    with shipped_driver(plane, folder, namespace=NAMESPACE, nodes=2) as nodes:
        yield Play(plane, nodes, folder / "driver")


def test_a_job_that_is_deleted_while_it_runs_leaves_nothing_and_its_nodes_are_free(
    play: Play,
) -> None:
    play.runs("running")
    assert play.processes() > play.idle
    play.kubectl("delete", "tj", "running")
    play.nothing_is_left()


def test_a_job_that_is_deleted_while_it_starts_leaves_nothing(play: Play) -> None:
    play.made("starting", FOR_EVER)
    eventually(lambda: play.phase("starting") not in ("", "Pending"), "it has its nodes")
    play.kubectl("delete", "tj", "starting")
    play.nothing_is_left()


def test_a_job_that_is_deleted_once_it_is_done_leaves_nothing(play: Play) -> None:
    play.made("done", ["true"])
    eventually(lambda: play.phase("done") == "Succeeded", "every rank has ended well")
    play.kubectl("delete", "tj", "done")
    play.nothing_is_left()


def test_a_job_that_is_deleted_while_it_recovers_leaves_nothing_once_its_node_is_back(
    play: Play,
) -> None:
    play.runs("recovering")
    play.nodes.unplug("node-2")
    eventually(lambda: play.phase("recovering") != "Running", "it recovers, and lacks a node")
    play.kubectl("delete", "tj", "recovering")
    play.nodes.plug("node-2")
    play.nothing_is_left()
    assert play.state().nodes["node-2"].quarantined
