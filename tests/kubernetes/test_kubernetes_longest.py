"""Names as long as Kubernetes allows them: of a namespace, a job and nodes, through a true driver.

A driver for all namespaces, on nodes without machines; what it makes of such names is in the
objects that the API server took from it.
"""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from operated import Operated, operated, said
from waiting import eventually

from holdfast.driver.adapters.kubernetes import names
from holdfast.kubeapi import paths
from holdfast.lab.kubernetes.plane import ControlPlane

pytestmark = pytest.mark.kubernetes

NAMESPACE = f"longest-{'n' * 55}"
JOB = f"job-{'j' * 59}"
LABEL, NAME = 63, 253
"""Characters of a label, and of a name that may have dots."""
BEFORE = ".".join(["d" * 61, "d" * 61, "d" * 61]) + ".e."
"""Of a node's name; the rest of it is the namespace and a number."""


@pytest.fixture(scope="module")
def longest(crd: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operated]:
    folder = tmp_path_factory.mktemp("longest")
    with operated(crd, folder, name=NAMESPACE, nodes=2, everywhere=True, before=BEFORE) as driven:
        yield driven


def test_a_job_gets_its_pods_is_told_of_and_is_suspended(longest: Operated) -> None:
    assert (len(NAMESPACE), len(JOB)) == (LABEL, LABEL)
    longest.apply(JOB, nodes=2)
    pods = longest.bound(JOB, 2)
    nodes = {pod["spec"]["nodeName"] for pod in pods}
    assert {len(node) for node in nodes} == {NAME}
    assert {pod["metadata"]["annotations"][names.NODE] for pod in pods} == nodes
    assert {pod["metadata"]["labels"][names.JOB] for pod in pods} == {JOB}
    assert sorted(pod["metadata"]["name"] for pod in pods) == [f"{JOB}-0-1", f"{JOB}-1-1"]
    longest.until(JOB, lambda status: set(status.get("nodes", ())) == nodes, "it says where")
    eventually(lambda: "Allocating" in _reasons(longest), "its story is told")
    longest.patch(JOB, suspend=True)
    longest.until(JOB, lambda status: said(status, "Suspended") == "True", "suspended")
    longest.clear(JOB)


def test_a_node_of_it_is_distrusted_with_all_its_marks(longest: Operated) -> None:
    longest.apply(JOB, nodes=2)
    node = longest.bound(JOB, 2)[0]["spec"]["nodeName"]
    token = longest.driver.paths.user_token.read_text().strip()
    with httpx.Client(trust_env=False, verify=False, timeout=60) as person:
        at = f"{longest.url()}/v1alpha1/nodes/{node}/evict"
        headers = {"Authorization": f"Bearer {token}"}
        answer = person.post(at, json={"reason": "r" * 500}, headers=headers)
    assert answer.status_code == 202, answer.text
    eventually(lambda: names.TAINT in json.dumps(_node(longest, node)["spec"]), "it has our taint")
    marks = _node(longest, node)["metadata"]["annotations"]
    assert {*names.MARKS} <= {*marks}
    eventually(lambda: names.CONDITION in json.dumps(_node(longest, node)["status"]), "it says why")
    longest.clear(JOB)


def _node(longest: Operated, node: str) -> dict[str, Any]:
    return longest.plane.read(paths.nodes(node))


def _reasons(longest: Operated) -> list[str]:
    events = longest.plane.read(paths.events(NAMESPACE))["items"]
    return [each["reason"] for each in events if each["regarding"]["name"] == JOB]
