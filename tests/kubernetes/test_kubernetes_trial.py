"""A node with a fault is evicted and tainted, tested by a pod of its own, and used again.

Played on an emulated node with a driver that has the shipped role; what it left is read then.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from shipped_driver import DRIVER, entries_in, shipped_driver
from waiting import eventually

from holdfast.driver.adapters.kubernetes import names
from holdfast.driver.core.effects import Distrust, HoldForExam, Trust
from holdfast.driver.ports import Entry
from holdfast.kubeapi import paths
from holdfast.lab.kubernetes.plane import ControlPlane

pytestmark = [pytest.mark.kubernetes, pytest.mark.cluster, pytest.mark.torch]


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
    soon = ("--trial-after-s", "1")
    with shipped_driver(plane, folder, namespace=NAMESPACE, nodes=1, driver=soon):
        yield Play(plane)


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
    audited = play.plane.audit(play.since_bytes)
    by_driver = [each for each in audited if each["user"].get("username") == DRIVER]
    return Left(distrusted, trusted, entries_in(folder), by_driver)


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
    kinds = [type(each) for each in orders if isinstance(each, Distrust | HoldForExam | Trust)]
    assert (kinds[0], kinds[-2:]) == (Distrust, [HoldForExam, Trust])


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
