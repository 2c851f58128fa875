"""A fleet that is full of others' pods but for a few nodes, on a real API server and scheduler."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from deployed import DEPLOY
from operated import Operated, operated, said

from holdfast.lab.kubernetes.plane import ControlPlane

pytestmark = pytest.mark.kubernetes

HALF = {"resources": {"requests": {"cpu": "5"}}}
"""More than half of the eight that a node has."""
FULL = 6
PRIORITIES = str(DEPLOY / "base" / "priorities.yaml")


@pytest.fixture(scope="module")
def busy(crd: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operated]:
    """Ten nodes, the first six of which have a pod of others."""
    folder = tmp_path_factory.mktemp("driver")
    with operated(crd, folder, name="busy", nodes=10) as driven:
        driven.driver.end()
        fill(driven)
        crd.kubectl("apply", "-f", PRIORITIES)
        driven.start()  # it lists what is there before it asks for a node
        yield driven
        driven.delete()
        driven.end_pods()
        crd.kubectl("delete", "-f", PRIORITIES)


def fill(operator: Operated) -> None:
    container = {"name": "main", "image": "other:1", **HALF}
    theirs = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"other-{number}", "namespace": operator.namespace},
            "spec": {"containers": [container], "nodeName": f"busy-{number}"},
        }
        for number in range(1, FULL + 1)
    ]
    document = {"apiVersion": "v1", "kind": "List", "items": theirs}
    operator.plane.kubectl("apply", "-f", "-", input=json.dumps(document))


@pytest.mark.parametrize("shipped", ["", "holdfast-training"])
def test_a_job_gets_the_nodes_that_others_left_free_and_no_pod_is_made_for_the_rest(
    busy: Operated, shipped: str
) -> None:
    """Also with the PriorityClass that is shipped, which is above the others' and pushes none of
    them off.
    """
    name = "above" if shipped else "plain"
    busy.apply(name, nodes=2, pod={**HALF, "priorityClassName": shipped})
    pods = busy.bound(name, 2)
    nodes = {pod["spec"]["nodeName"] for pod in pods}
    assert nodes <= {f"busy-{number}" for number in range(FULL + 1, 11)}
    busy.until(name, lambda status: said(status, "Allocated") == "True", "each has its pod")
    made = [each for each in busy.plane.audit() if _makes(each, busy.namespace, name)]
    assert {each["objectRef"]["name"] for each in made} == {pod["metadata"]["name"] for pod in pods}


def _makes(event: dict[str, Any], namespace: str, job: str) -> bool:
    about = event.get("objectRef") or {}
    mine = (about.get("resource"), about.get("namespace")) == ("pods", namespace)
    ours = str(about.get("name", "")).startswith(f"{job}-")
    return mine and ours and event["verb"] == "create" and not about.get("subresource")
