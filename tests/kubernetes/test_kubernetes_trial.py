"""A node with a fault is evicted and tainted, tested by a pod of its own, and used again.

Played on an emulated node with a driver that has the shipped role; what it left is read then.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from waiting import eventually

from holdfast.driver.adapters.journal_sqlite import open_sqlite
from holdfast.driver.adapters.kubernetes import names, paths
from holdfast.driver.core.effects import Distrust, PutOnTrial, Trust
from holdfast.driver.ports import Entry
from holdfast.driver.settings import Settings
from holdfast.kit.supervise import Child, Lifeline
from holdfast.lab.emulator.kubelet.joined import Joined
from holdfast.lab.emulator.namespaces import Kind, best_kind
from holdfast.lab.emulator.nodes import DRIVER_URL
from holdfast.lab.kubernetes.plane import ControlPlane
from holdfast.lab.nursery import Nursery

pytestmark = [pytest.mark.kubernetes, pytest.mark.cluster, pytest.mark.torch]

BASE = Path(__file__).parents[2] / "deploy" / "kubernetes" / "base"
MANIFESTS = ("crd.yaml", "priorities.yaml", "namespace.yaml", "rbac.yaml")
ACCOUNT = ("holdfast", "holdfast-driver")
DRIVER = f"system:serviceaccount:{':'.join(ACCOUNT)}"

JOB, NAMESPACE, NODE = "tried", "tried", "node-1"
TRAIN = "import time\nwhile True: time.sleep(1)"


class Left(NamedTuple):
    """What the play left: the node while it was distrusted and afterwards, what the driver wrote
    down, and what it asked of the API server.
    """

    distrusted: dict[str, Any]
    trusted: dict[str, Any]
    entries: list[Entry]
    audited: list[dict[str, Any]]


class Play:
    """The job and its node, as a person sees them."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane
        self.since_bytes = plane.audit_log.stat().st_size

    def apply(self) -> None:
        spec = {"nodes": 1, "ranksPerNode": 1, "command": ["python", "-u", "-c", TRAIN]}
        spec["pod"] = {"image": "holdfast-executor:1", "priorityClassName": "holdfast-training"}
        document = {"apiVersion": "holdfast.dev/v1alpha1", "kind": "TrainingJob"}
        document |= {"metadata": {"name": JOB, "namespace": NAMESPACE}, "spec": spec}
        self.plane.kubectl("apply", "-f", "-", input=json.dumps(document))

    def runs(self) -> bool:
        job = self.plane.read(paths.training_jobs(NAMESPACE, JOB))
        return bool(job.get("status", {}).get("phase") == "Running")

    def node(self) -> dict[str, Any]:
        return self.plane.read(paths.nodes(NODE))

    def report(self, status: str) -> None:
        """As a problem detector does."""
        told = {"type": "GPUMissing", "status": status, "reason": "Count", "message": "7 of 8"}
        patch = json.dumps({"status": {"conditions": [told]}})
        self.plane.kubectl("patch", "node", NODE, "--subresource=status", "-p", patch)


def tainted(node: dict[str, Any]) -> bool:
    return any(taint["key"] == names.TAINT for taint in node["spec"].get("taints", ()))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("trial")


@pytest.fixture(scope="module")
def play(plane: ControlPlane, folder: Path) -> Iterator[Play]:
    """One node, and a driver outside that it reaches by its gateway."""
    if best_kind()[0] is Kind.LOOPBACK:
        pytest.skip(f"no namespaces here: {best_kind()[1]}")
    state = folder / "driver"
    for manifest in MANIFESTS:
        plane.kubectl("apply", "-f", str(BASE / manifest))
    plane.kubectl("create", "namespace", NAMESPACE)
    words = ["--state", str(state), "--cluster", "kubernetes", "--namespace", NAMESPACE]
    words += ["--kubeconfig", str(plane.as_account(*ACCOUNT)), "--driver-urls", DRIVER_URL]
    words += ["--node-selector", "kubernetes.io/os=linux", "--trial-after-s", "1"]
    options = ["--lease-s", "4", "--driver-socket", str(state / "driver.sock")]
    with Joined(plane, folder / "nodes", nodes=1, more=options) as joined:
        joined.ready()
        lifeline = Lifeline()
        log = folder / "driver.log"
        driver = Child("driver", "holdfast.driver.main", words, log=log, lifeline=lifeline)
        nursery = Nursery([driver], lifeline)
        try:
            yield Play(plane)
        finally:
            plane.kubectl("delete", "namespace", NAMESPACE, "--wait=false")
            nursery.end()
    left = joined.leftovers()
    assert left.count == 0, left


@pytest.fixture(scope="module")
def left(play: Play, folder: Path) -> Left:
    """Play it: the node of the job has a fault, the fault is mended, and nobody restores it."""
    play.apply()
    eventually(play.runs, "it runs")
    play.report("True")
    distrusted = eventually(lambda: node if tainted(node := play.node()) else None, "the taint")
    play.report("False")
    trusted = eventually(lambda: None if tainted(node := play.node()) else node, "no taint")
    eventually(play.runs, "the job runs again")
    eventually(lambda: not trial_pods(play), "the pod of the trial is gone")
    journal = open_sqlite(Settings(state=folder / "driver").paths.journal)
    entries = journal.entries()
    journal.close()
    audited = play.plane.audit(play.since_bytes)
    by_driver = [each for each in audited if each["user"].get("username") == DRIVER]
    return Left(distrusted, trusted, entries, by_driver)


def trial_pods(play: Play) -> list[dict[str, Any]]:
    labelled = f"{paths.pods(NAMESPACE)}?labelSelector={names.TRIAL}"
    found: list[dict[str, Any]] = play.plane.read(labelled)["items"]
    return found


def test_a_distrusted_node_that_passes_its_tests_loses_its_taint_without_a_person(
    left: Left,
) -> None:
    assert condition(left.distrusted)["status"] == "True"
    assert condition(left.trusted)["status"] == "False"
    marks = left.trusted["metadata"].get("annotations", {})
    assert not [mark for mark in names.MARKS if mark in marks]
    told = "; ".join(entry.why for entry in left.entries)
    assert f"{NODE} passed its tests and is trusted again" in told
    orders = [effect for entry in left.entries for effect in entry.effects]
    kinds = [type(each) for each in orders if isinstance(each, Distrust | PutOnTrial | Trust)]
    assert (kinds[0], kinds[-2:]) == (Distrust, [PutOnTrial, Trust])


def condition(node: dict[str, Any]) -> dict[str, Any]:
    (said,) = (c for c in node["status"]["conditions"] if c["type"] == names.CONDITION)
    found: dict[str, Any] = said
    return found


def test_its_tests_are_a_pod_of_the_nodes_own_beside_the_jobs(left: Left) -> None:
    made = [
        each["requestObject"]
        for each in left.audited
        if (each["verb"], each["objectRef"]["resource"]) == ("create", "pods")
        and each["responseStatus"]["code"] == 201
    ]
    components = [pod["metadata"]["labels"]["app.kubernetes.io/component"] for pod in made]
    assert components[0] == "executor"
    assert components[-2:] == ["trial", "executor"]
    assert made[-2]["metadata"]["name"].startswith(f"holdfast-trial-{NODE}-")


def test_the_shipped_role_is_enough_for_it(left: Left) -> None:
    refused = [
        each["requestURI"]
        for each in left.audited
        if each["annotations"].get("authorization.k8s.io/decision") == "forbid"
    ]
    assert refused == []
