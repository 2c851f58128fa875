"""The whole path: kubectl apply, pods that train on emulated nodes, a node lost, the job done."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from waiting import eventually

from holdfast.kit.supervise import Child, Lifeline
from holdfast.lab.emulator.kubelet.joined import Joined
from holdfast.lab.emulator.namespaces import Kind, best_kind
from holdfast.lab.emulator.nodes import DRIVER_URL
from holdfast.lab.nursery import Nursery

pytestmark = [pytest.mark.kubernetes, pytest.mark.cluster]

CRD = Path(__file__).parents[2] / "deploy" / "kubernetes" / "base"
TRAIN = "import time\nfor step in range(30): print(step, flush=True); time.sleep(0.3)"


@pytest.fixture
def nodes(plane, tmp_path) -> Iterator[Joined]:
    """Three nodes, and a driver outside that they reach by their gateway."""
    if best_kind()[0] is Kind.LOOPBACK:
        pytest.skip(f"no namespaces here: {best_kind()[1]}")
    state = tmp_path / "driver"
    for manifest in ("crd.yaml", "priorities.yaml"):
        plane.kubectl("apply", "-f", str(CRD / manifest))
    words = ["--state", str(state), "--cluster", "kubernetes", "--kubeconfig", str(plane.admin)]
    words += ["--namespace", "default", "--driver-urls", DRIVER_URL]
    words += ["--node-selector", "kubernetes.io/os=linux"]
    options = ["--lease-s", "4", "--driver-socket", str(state / "driver.sock")]
    with Joined(plane, tmp_path / "nodes", nodes=3, more=options) as joined:
        joined.ready()
        lifeline = Lifeline()
        log = tmp_path / "driver.log"
        driver = Child("driver", "holdfast.driver.main", words, log=log, lifeline=lifeline)
        nursery = Nursery([driver], lifeline)
        try:
            yield joined
        finally:
            plane.kubectl("delete", "tj", "--all", "--wait=false")
            nursery.end()
    left = joined.leftovers()
    assert left.count == 0, left


def job(plane) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(plane.kubectl("get", "tj", "whole", "-o", "json"))
    return found.get("status", {})


def test_a_job_goes_on_though_one_of_its_nodes_is_unplugged(plane, nodes):
    command = ["python", "-u", "-c", TRAIN]
    pod = {"image": "holdfast-executor:1"}
    spec = {"nodes": 2, "ranksPerNode": 1, "command": command, "pod": pod}
    document = {"apiVersion": "holdfast.dev/v1alpha1", "kind": "TrainingJob"}
    document |= {"metadata": {"name": "whole"}, "spec": spec}
    plane.kubectl("apply", "-f", "-", input=json.dumps(document))
    eventually(lambda: job(plane).get("phase") == "Running", "it runs")
    cut = plane.kubectl("get", "pods", "-o", "jsonpath={.items[0].spec.nodeName}")
    nodes.unplug(cut)
    eventually(lambda: job(plane)["phase"] in ("Succeeded", "Failed"), "it ends")
    status = job(plane)
    assert (status["phase"], status["restarts"]) == ("Succeeded", 1)
    assert status["incident"]["evicted"] == [cut]
    nodes.plug(cut)
    left = ("get", "pods", "-o", "name")
    eventually(lambda: not plane.kubectl(*left), "the cut node heard that its pod is not wanted")
