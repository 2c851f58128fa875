"""A person takes our taint off a node: an Event on it says what to type, whatever overlay is used.

On a real API server, by a driver process that has the shipped rights of its service account and no
others.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from deployed import OVERLAYS, kustomized
from operated import Operated, operated
from shipped_rights import Audit
from waiting import DEADLINE_S, eventually

from holdfast.driver.adapters.kubernetes import facts, names
from holdfast.kubeapi import paths
from holdfast.lab.kubernetes.kubectl import KubectlFailed
from holdfast.lab.kubernetes.plane import ControlPlane

pytestmark = [pytest.mark.kubernetes, pytest.mark.slow]

ACCOUNT = "holdfast:holdfast-driver"
TRAINING = "training"
"""The namespace of the overlay `one-namespace`."""
HELD = "overlays/one-namespace"
OF_RIGHTS = ("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
WHY = "it is to be repaired"


def rights_of(plane: ControlPlane, folder: str) -> str:
    """For kubectl: the objects of a folder that say what the driver may do."""
    parts = [part for part in kustomized(plane, folder) if part["kind"] in OF_RIGHTS]
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": parts})


@pytest.fixture(params=OVERLAYS)
def folder(own_plane: ControlPlane, request: pytest.FixtureRequest) -> Iterator[str]:
    """One that a person may apply; afterwards the rights are those of the base again."""
    made: str = request.param
    (ours,) = (p for p in kustomized(own_plane, "") if p["kind"] == "Namespace")
    own_plane.kubectl("apply", "-f", "-", input=json.dumps(ours))
    yield made
    own_plane.kubectl("delete", "--ignore-not-found", "-f", "-", input=rights_of(own_plane, made))
    own_plane.kubectl("apply", "-f", "-", input=rights_of(own_plane, ""))
    own_plane.kubectl("delete", "namespace", TRAINING, "--ignore-not-found", within_s=DEADLINE_S)


@pytest.fixture
def audit(own_plane: ControlPlane) -> Audit:
    return Audit(own_plane.audit_log)


@pytest.fixture
def driven(
    crd: ControlPlane, folder: str, audit: Audit, tmp_path: Path
) -> Iterator[tuple[Operated, Audit]]:
    def account() -> Path:
        crd.kubectl("apply", "-f", "-", input=rights_of(crd, folder))
        return crd.as_account(*ACCOUNT.split(":"))

    everywhere = folder != HELD
    with operated(
        crd, tmp_path, name=TRAINING, nodes=2, everywhere=everywhere, who=account
    ) as made:
        yield made, audit


def test_whoever_takes_the_taint_off_is_told_on_the_node_what_to_type(
    driven: tuple[Operated, Audit],
) -> None:
    operator, audit = driven
    node = f"{TRAINING}-1"
    evict(operator, node)
    eventually(lambda: tainted(operator.plane, node), "it is marked")
    operator.kubectl("taint", "nodes", node, f"{names.TAINT}-")
    eventually(lambda: events_about(operator.plane, node), "an Event is there")
    (event,) = events_about(operator.plane, node)
    assert tainted(operator.plane, node), "told once it is so"
    assert f"holdfast nodes restore {node} --reason WHY" in event["note"]
    assert event["note"].endswith(WHY)
    described = operator.kubectl("describe", "node", node)
    assert "DistrustedAgain" in described, "where people look"
    assert audit.refused(ACCOUNT) == set()


def test_an_event_about_a_node_may_be_in_no_other_namespace(own_plane: ControlPlane) -> None:
    """Else the driver would write it where it has that right anyhow."""
    about = {"apiVersion": "v1", "kind": "Node", "name": "any", "uid": "any"}
    event = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "about-a-node", "namespace": "kube-public"},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": f"{names.GROUP}/driver",
        "reportingInstance": "tests",
        "action": "Distrust",
        "reason": "DistrustedAgain",
        "type": "Warning",
        "note": "x",
        "regarding": about,
    }
    with pytest.raises(KubectlFailed, match="does not match"):
        own_plane.kubectl("create", "-f", "-", input=json.dumps(event))


def evict(operator: Operated, node: str) -> None:
    at = f"{operator.url()}/v1alpha1/nodes/{node}/evict"
    token = operator.driver.paths.user_token.read_text().strip()
    with httpx.Client(
        trust_env=False, verify=False, headers={"Authorization": f"Bearer {token}"}
    ) as person:

        def taken() -> bool:
            """Not before the driver has heard of the node."""
            return person.post(at, json={"reason": WHY}, timeout=DEADLINE_S).status_code == 202

        eventually(taken, "it takes the request")


def tainted(plane: ControlPlane, node: str) -> bool:
    return names.TAINT in [each["key"] for each in facts.taints(plane.read(paths.nodes(node)))]


def events_about(plane: ControlPlane, node: str) -> list[dict[str, Any]]:
    """Of ours, about this very object: others bore its name, and the control plane tells, too."""
    uid = plane.read(paths.nodes(node))["metadata"]["uid"]
    items = plane.read(paths.events(paths.DEFAULT)).get("items", ())
    ours = [each for each in items if each["regarding"].get("uid") == uid]
    return [each for each in ours if each["reason"] == "DistrustedAgain"]
