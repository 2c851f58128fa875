"""Pods of a start are placed all at one moment where the API server has PodGroups, else by gates.

A driver on real API servers: one that has them, and one that does not.
"""

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from deployed import kustomized
from operated import Operated, operated
from policies import policy
from shipped_rights import Audit
from waiting import GRACE_S, eventually

from holdfast.kubeapi import paths
from holdfast.lab.kubernetes import flags
from holdfast.lab.kubernetes.plane import ControlPlane, KubectlFailed

pytestmark = [pytest.mark.kubernetes, pytest.mark.slow]

RUNS = ("Deployment", "Service", "PodDisruptionBudget", "NetworkPolicy")
"""Kinds of the overlay that are of its pods; the driver is a process here."""
ACCOUNT = ("holdfast", "holdfast-driver")
ROLE = "clusterrole/holdfast-driver"
HALF = {"resources": {"requests": {"cpu": "5"}}}
"""More than half of the eight that a node has: no two pods that want it are on one node."""


@contextmanager
def occupied(operator: Operated, node: str) -> Iterator[None]:
    """A pod of others has more than half of the node, for as long as a `with`. It is always ending,
    as there is no kubelet: for the driver it is gone soon, for the scheduler it is there.
    """
    container = {"name": "main", "image": "other:1", **HALF}
    document = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "other", "namespace": operator.namespace},
        "spec": {"containers": [container], "nodeName": node},
    }
    operator.plane.kubectl("apply", "-f", "-", input=json.dumps(document))
    try:
        operator.kubectl("delete", "pod", "other", "--wait=false")
        yield
    finally:
        operator.kubectl("delete", "pod", "other", "--force", "--grace-period=0")


@pytest.fixture(scope="module")
def grouped(crd: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operated]:
    """With the overlay's rights and no others, on a control plane of its own; `crd` skips where
    there is none.
    """
    folder = tmp_path_factory.mktemp("driver")
    with ControlPlane(folder / "kubernetes", grace_s=GRACE_S, more=flags.POD_GROUPS) as plane:
        for part in kustomized(plane, "overlays/pod-groups"):
            if part["kind"] not in RUNS:
                plane.kubectl("apply", "-f", "-", input=json.dumps(part))
        plane.kubectl("wait", "--for=condition=Established", "crd/trainingjobs.holdfast.dev")
        who = plane.as_account(*ACCOUNT)
        with operated(plane, folder, "--pod-groups", name="grouped", nodes=2, who=who) as driven:
            yield driven


@pytest.fixture(autouse=True)
def the_room_is_free(grouped: Operated) -> Iterator[None]:
    """Afterwards: no kubelet is there to end a pod that has a node."""
    yield
    grouped.delete()
    grouped.end_pods()


def test_none_is_placed_while_a_pod_of_others_has_the_room_of_one(grouped: Operated) -> None:
    with occupied(grouped, "grouped-2"):
        grouped.apply("whole", nodes=2, pod=HALF)
        found = eventually(lambda: refused(grouped, "whole", 2), "the scheduler has refused both")
        assert ["nodeName" in pod["spec"] for pod in found or ()] == [False, False]
    grouped.bound("whole", 2)
    (group,) = grouped.get("podgroups")["items"]
    assert group["spec"]["schedulingPolicy"] == {"gang": {"minCount": 2}}
    (owner,) = group["metadata"]["ownerReferences"]
    assert owner["uid"] == grouped.get("tj", "whole")["metadata"]["uid"]


def refused(operator: Operated, job: str, count: int) -> list[dict[str, Any]] | None:
    """The pods of the job, once the scheduler has said of `count` that it cannot place them."""
    labelled = f"?labelSelector=holdfast.dev/job={job}"
    items = operator.plane.read(paths.pods(operator.namespace) + labelled)["items"]
    said = [each for pod in items for each in pod["status"].get("conditions", ())]
    reasons = [each.get("reason") for each in said if each["type"] == "PodScheduled"]
    return items if reasons == ["Unschedulable"] * count else None


def test_each_start_has_a_group_of_its_own(grouped: Operated) -> None:
    grouped.apply("again", nodes=2)
    first = names_of(grouped.bound("again", 2))
    (group,) = groups(grouped, "again")
    grouped.end_pods()

    def another() -> bool:
        found = groups(grouped, "again")
        return bool(found) and group not in found

    eventually(another, "the group of the first start is gone, and another is there")
    assert first.isdisjoint(names_of(grouped.bound("again", 2)))
    audit = Audit(grouped.plane.audit_log, whole=True)
    assert {"create podgroups", "delete podgroups"} <= audit.used(":".join(ACCOUNT))
    assert audit.refused(":".join(ACCOUNT)) == set()


def test_a_job_that_is_deleted_takes_its_group_with_it(grouped: Operated) -> None:
    grouped.apply("over", nodes=2)
    grouped.bound("over", 2)
    assert len(groups(grouped, "over")) == 1
    grouped.delete("over")
    eventually(lambda: not grouped.pods("over"), "its pods are to go")
    grouped.end_pods()  # as kubelets would
    eventually(lambda: not groups(grouped, "over"), "its group is gone")


@contextmanager
def barred(grouped: Operated, verb: str) -> Iterator[None]:
    """The role of a driver that leads is without this verb of podgroups, for as long as a `with`.

    One that does not lead yet would not come to.
    """
    assert grouped.url()
    shipped = json.loads(grouped.plane.kubectl("get", ROLE, "-o", "json"))["rules"]
    less = json.loads(json.dumps(shipped))
    (rule,) = (each for each in less if each["resources"] == ["podgroups"])
    rule["verbs"].remove(verb)
    try:
        has_rules(grouped, less)
        eventually(lambda: not may(grouped, verb), f"it may not {verb} podgroups")
        yield
    finally:
        has_rules(grouped, shipped)
        eventually(lambda: may(grouped, verb), f"it may {verb} podgroups again")


def has_rules(grouped: Operated, rules: list[dict[str, Any]]) -> None:
    patch = json.dumps({"rules": rules})
    grouped.plane.kubectl("patch", ROLE, "--type=merge", "-p", patch)


def may(grouped: Operated, verb: str) -> bool:
    """By the API server's own word."""
    who = f"--as=system:serviceaccount:{':'.join(ACCOUNT)}"
    try:
        said = grouped.kubectl("auth", "can-i", verb, "podgroups.scheduling.k8s.io", who)
    except KubectlFailed:
        return False
    return said.strip() == "yes"


def test_without_the_right_to_make_groups_no_pod_is_made_until_it_is_there_again(
    grouped: Operated,
) -> None:
    with barred(grouped, "create"):
        grouped.apply("barred", nodes=2)
        why = 'cannot create resource "podgroups"'
        grouped.until("barred", lambda status: why in status.get("message", ""), "it says why")
        assert not grouped.pods("barred")
    grouped.bound("barred", 2)


def groups(operator: Operated, job: str) -> set[str]:
    found = operator.get("podgroups", "-l", f"holdfast.dev/job={job}")
    return names_of(found.get("items", ()))


def names_of(objects: Iterable[dict[str, Any]]) -> set[str]:
    return {each["metadata"]["name"] for each in objects}


def test_gates_do_where_a_pod_is_not_in_the_group_that_it_was_ordered_into(
    grouped: Operated,
) -> None:
    group = {"podGroupName": "of-tests"}
    with policy(grouped, "drops-groups", field="schedulingGroup", value=group):
        placed_by_gates(grouped)
    assert "the API server leaves schedulingGroup out of pods" in grouped.driver.log.read_text()


def test_gates_do_where_the_api_server_has_no_pod_groups(crd: ControlPlane, tmp_path: Path) -> None:
    with operated(crd, tmp_path, "--pod-groups", name="ungrouped", nodes=2) as operator:
        placed_by_gates(operator)
        assert (
            "the API server has no podgroups of scheduling.k8s.io/v1alpha2"
            in operator.driver.log.read_text()
        )


def placed_by_gates(operator: Operated) -> None:
    """A pod that was not in its group may have had a node before it went."""
    operator.apply("gated", nodes=2)
    eventually(lambda: len(opened(operator)) == 2, "both gates are taken off")
    for pod in operator.bound("gated", 2):
        assert "schedulingGroup" not in pod["spec"]


def opened(operator: Operated) -> set[str]:
    """The pods that were patched, but for their status."""
    patched = {each["requestURI"] for each in operator.plane.audit() if each["verb"] == "patch"}
    ours = f"/namespaces/{operator.namespace}/pods/gated-"
    return {each for each in patched if ours in each and not each.endswith("/status")}
