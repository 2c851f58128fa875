"""A TrainingJob that is deleted in any phase of its life: nothing of it is left, the next one runs.

One driver with the shipped role, two emulated nodes; what a job leaves is seen on the machine, in
the API server and in the journal. The next one is that of the next test, of the same name, which
wants both nodes, too: the last test's runs there after all that others left.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from phases_reached import FOR_EVER, WAYS, Stage
from shipped_driver import shipped_driver
from waiting import eventually

from holdfast.driver.adapters.kubernetes import names
from holdfast.driver.core.state.model import Phase, Wanted
from holdfast.keeper import processes
from holdfast.kubeapi import paths
from holdfast.lab.kubernetes.plane import ControlPlane

pytestmark = [pytest.mark.kubernetes, pytest.mark.cluster, pytest.mark.slow]

NAMESPACE = "deleted"
JOB = "deleted-one"

Object = dict[str, Any]


class Play(Stage):
    """The stage, and what of jobs there is on it."""

    def begin(self) -> None:
        self.kinds = self._kinds()
        self.idle = self.processes()

    def processes(self) -> int:
        """Of the nodes, and of what runs there."""
        return sum(1 for _ in processes.marked(self.nodes.run_id))

    def _kinds(self) -> str:
        """Whatever a namespace can have, but the tales that are told of what there was."""
        words = ("api-resources", "--namespaced", "--verbs=list", "--output=name")
        found = self.plane.kubectl(*words).split()
        return ",".join(each for each in found if not each.startswith("events"))

    def objects(self, job: str, uid: str) -> list[str]:
        """All of any kind that are the job's, or say that they are: kind and name."""
        found = json.loads(self.kubectl("get", self.kinds, "-o", "json"))["items"]
        return [
            f"{each['kind']} {each['metadata']['name']}"
            for each in found
            if uid in json.dumps(each["metadata"]) or each["metadata"]["name"].startswith(job)
        ]

    def marked(self) -> list[str]:
        """Nodes that have anything of ours on them but their rack."""
        found = {name: self.plane.read(paths.nodes(name)) for name in self.nodes.names}
        return [
            name
            for name, each in found.items()
            if _ours(each["metadata"].get("annotations", {})) or _tainted(each)
        ]

    def nothing_is_left(self, job: str, uid: str) -> None:
        eventually(lambda: self.processes() == self.idle, "no rank, executor or daemon is left")
        eventually(lambda: not self.state().jobs, "the driver has no job")
        eventually(lambda: not any(n.job for n in self.state().nodes.values()), "nodes are free")
        # last, for it looks at every kind that there is: by now it mostly need not look twice
        eventually(lambda: not self.objects(job, uid), f"no object of {job} is left")

    def deleted(self, job: str) -> str:
        """Delete it as a person does, and return once the driver has heard of it; its UID."""
        uid: str = self.object(job)["metadata"]["uid"]
        self.kubectl("delete", "tj", job)
        eventually(lambda: self._heard(job), "the driver has heard of it")
        return uid

    def _heard(self, job: str) -> bool:
        known = self.state().jobs.get(job)
        return known is None or known.wanted is Wanted.DELETE


def _ours(annotations: Object) -> bool:
    return any(key.startswith(f"{names.GROUP}/") for key in annotations)


def _tainted(node: Object) -> bool:
    return any(each["key"] == names.TAINT for each in node["spec"].get("taints", ()))


@pytest.fixture(scope="module")
def play(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Play]:
    folder = tmp_path_factory.mktemp("deleted")
    with shipped_driver(plane, folder, namespace=NAMESPACE, nodes=2) as nodes:
        made = Play(plane, nodes, folder, NAMESPACE)
        made.begin()
        yield made


@contextmanager
def reached(play: Play, phase: Phase) -> Iterator[None]:
    """The job is in this phase; afterwards the cluster is as it was."""
    way = WAYS[phase](play, JOB)
    next(way)
    try:
        eventually(lambda: play.phase(JOB) == phase, f"{JOB} is {phase}")
        assert play.state().jobs[JOB].phase is phase, "it stays so"
        yield
    finally:
        assert next(way, "the end") == "the end"


def test_there_is_a_way_into_each_phase() -> None:
    assert set(WAYS) == set(Phase)


@pytest.mark.parametrize("phase", Phase)
def test_a_job_that_is_deleted_leaves_nothing(play: Play, phase: Phase) -> None:
    with reached(play, phase):
        uid = play.deleted(JOB)
    play.nothing_is_left(JOB, uid)
    assert play.marked() == []


def test_one_of_which_no_job_could_be_made_leaves_nothing(play: Play) -> None:
    play.made(JOB, FOR_EVER, logRules=[{"pattern": "("}])
    eventually(lambda: play.phase(JOB) == "Refused", "it is refused")
    play.nothing_is_left(JOB, play.deleted(JOB))


def test_a_job_that_is_deleted_while_it_recovers_leaves_nothing_once_its_node_is_back(
    play: Play,
) -> None:
    play.runs(JOB)
    before = play.state().incidents.keys()
    play.nodes.unplug("node-2")

    def lacks_a_node() -> bool:
        """Long before the cluster says that it is gone, which would evict it."""
        incidents = play.state().incidents
        return any(incidents[each].node == "node-2" for each in incidents.keys() - before)

    eventually(lacks_a_node, "it recovers, and lacks a node")
    uid = play.deleted(JOB)
    play.nodes.plug("node-2")
    play.nothing_is_left(JOB, uid)
    assert not play.state().nodes["node-2"].quarantined, "no other could take its place"
    assert play.marked() == []
