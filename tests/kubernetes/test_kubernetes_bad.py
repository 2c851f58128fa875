"""Jobs that cannot be had as they are asked for: each says why, and keeps nothing from others.

A driver of one namespace on a real API server, with two nodes.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from operated import Operated, operated, said
from policies import MARK, policy
from waiting import eventually

from holdfast.driver.core.events import JobSubmitted
from holdfast.lab.kubernetes.kubectl import KubectlFailed
from holdfast.lab.kubernetes.plane import ControlPlane

pytestmark = pytest.mark.kubernetes


@pytest.fixture(scope="module")
def bad(crd: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operated]:
    with operated(crd, tmp_path_factory.mktemp("driver"), name="bad", nodes=2) as driven:
        yield driven


@contextmanager
def having(bad: Operated, kind: str, name: str, spec: dict[str, Any]) -> Iterator[None]:
    """An object of the core group in the namespace, for as long as a `with`."""
    metadata = {"name": name, "namespace": bad.namespace}
    document = {"apiVersion": "v1", "kind": kind, "metadata": metadata, "spec": spec}
    bad.plane.kubectl("apply", "-f", "-", input=json.dumps(document))
    try:
        yield
    finally:
        bad.kubectl("delete", kind, name)


@pytest.fixture(autouse=True)
def nothing_is_left(bad: Operated) -> Iterator[None]:
    """Of the jobs of a test, whatever became of it."""
    yield
    bad.delete()

    def staying() -> list[str]:
        found = (each["metadata"] for each in bad.get("pods")["items"])
        return [each["name"] for each in found if "deletionTimestamp" not in each]

    eventually(lambda: not staying(), "no pod is left")


def test_a_job_over_its_quota_gets_all_its_pods_or_none_and_never_one_on_a_node(
    bad: Operated,
) -> None:
    with having(bad, "ResourceQuota", "small", {"hard": {"pods": "1"}}):
        used = ("get", "quota", "small", "-o", "jsonpath={.status.used.pods}")
        eventually(lambda: bad.kubectl(*used) == "0", "the quota is known")
        bad.apply("many", nodes=2)
        over = "the API server refuses its pods: exceeded quota: small, requested: pods=1, used: "
        bad.until("many", lambda status: over in status.get("message", ""), "why it waits")
        eventually(lambda: not bad.pods("many"), "the pod that was let in is given back")
        bad.until("many", lambda status: status.get("phase") == "Pending", "it waits")
        assert [each for each in audited(bad, "pods/binding") if "many" in each["requestURI"]] == []
        bad.apply("few", nodes=1)
        bad.until("few", lambda status: said(status, "Allocated") == "True", "it has its node")


def audited(bad: Operated, what: str) -> list[dict[str, Any]]:
    """Requests about RESOURCE/SUBRESOURCE in the namespace."""
    resource, _, subresource = what.partition("/")
    wanted = {"resource": resource, "subresource": subresource, "namespace": bad.namespace}
    about = ((each.get("objectRef", {}), each) for each in bad.plane.audit())
    return [each for which, each in about if wanted.items() <= which.items()]


def test_two_jobs_that_need_the_last_node_are_one_that_has_all_and_one_that_has_none(
    bad: Operated,
) -> None:
    names = ("left", "right")
    documents = [bad.document(name, nodes=2) for name in names]
    together = json.dumps({"apiVersion": "v1", "kind": "List", "items": documents})
    bad.plane.kubectl("apply", "-f", "-", input=together)

    def placed() -> list[str]:
        return sorted(name for name in names if said(bad.status(name), "Allocated") == "True")

    (first,) = eventually(placed, "one has its nodes")
    (other,) = {*names} - {first}
    bad.until(
        other,
        lambda status: "it needs 2 nodes, and none is free" in status.get("message", ""),
        "why",
    )
    assert len(bad.bound(first, 2)) == 2
    assert bad.pods(other) == {}
    bad.delete(first)
    bad.until(other, lambda status: said(status, "Allocated") == "True", "the other has them")


def test_a_pod_that_admission_changed_is_still_the_jobs_pod(bad: Operated) -> None:
    default = {"type": "Container", "default": {"cpu": "2"}, "defaultRequest": {"cpu": "1"}}
    given = "jsonpath={.spec.containers[0].resources.limits.cpu}"
    probe = ("run", "probe", "--image=of/tests:1", "--dry-run=server", "-o", given)
    with having(bad, "LimitRange", "defaults", {"limits": [default]}):
        eventually(lambda: bad.kubectl(*probe) == "2", "it is in force")
        bad.apply("limited", nodes=2)
        limited = bad.bound("limited", 2)
    containers = [pod["spec"]["containers"][0] for pod in limited]
    assert [each["resources"]["limits"]["cpu"] for each in containers] == ["2", "2"]


def test_a_policy_may_mark_our_pods_and_take_their_gates_off(bad: Operated) -> None:
    gates = [{"name": "of/tests"}]
    with policy(bad, "marks", field="schedulingGates", value=gates):
        bad.apply("marked", nodes=2)
        marked = bad.bound("marked", 2)
        assert [pod["metadata"]["labels"][MARK] for pod in marked] == ["policy", "policy"]
        assert {pod["spec"]["nodeName"] for pod in marked} == {"bad-1", "bad-2"}


def test_an_image_that_does_not_exist_is_said_in_the_words_of_the_kubelet(bad: Operated) -> None:
    why = {"reason": "ImagePullBackOff", "message": "no such image: holdfast.example/none:1"}
    state = {"name": "executor", "image": "", "imageID": "", "ready": False, "restartCount": 0}
    status = {"status": {"containerStatuses": [{**state, "state": {"waiting": why}}]}}
    how = ("--subresource=status", "--type=merge", "-p", json.dumps(status))
    words = "ImagePullBackOff: no such image: holdfast.example/none:1"

    def told() -> bool:
        """Each node to which the job goes has a kubelet that says it of the pod there."""
        for pod in bad.pods("imageless"):
            with suppress(KubectlFailed):  # it was taken back meanwhile
                bad.kubectl("patch", "pod", pod, *how)
        by_rest = bad.asked("jobs/imageless").get("waiting", "")
        return words in by_rest and words in bad.status("imageless").get("message", "")

    bad.apply("imageless", nodes=1, pod={"image": "holdfast.example/none:1"})
    eventually(told, "kubectl and REST say it")


@pytest.mark.parametrize(
    ("state", "spec"),
    [
        ("Pending", {"nodes": 3}),
        ("Allocating", {"nodes": 2}),
        ("Suspended", {"suspend": True}),
        ("Failed", {"nodes": 3, "deadlineS": 1}),
        ("Refused", {"env": {"NO": "1", "A B": "2"}}),
    ],
)
def test_an_object_is_deleted_at_once_in_each_state(
    bad: Operated, state: str, spec: dict[str, Any]
) -> None:
    bad.apply("short", **spec)
    bad.until("short", lambda status: status.get("phase") == state, f"it is {state}")
    bad.clear("short")
    assert bad.get("tj", "short") == {}


SCRIPT = "print('a \"b\" $(HOME) ${X} `ls` \\\\ % \t\n ä 漢 🚀')"
ODD = ["python", "-c", SCRIPT, "", "--", "-x=;|&<>"]


def test_a_command_with_odd_characters_comes_through_as_it_was_written(bad: Operated) -> None:
    bad.apply("spoken", nodes=1, command=ODD)
    bad.until("spoken", lambda status: said(status, "Allocated") == "True", "it has its node")
    (submitted,) = (
        entry.event
        for entry in bad.driver.journal()
        if isinstance(entry.event, JobSubmitted) and entry.event.job == "spoken"
    )
    assert list(submitted.plan.task.command) == ODD


def test_a_command_that_no_program_can_be_given_is_refused(bad: Operated) -> None:
    bad.apply("silent", nodes=1, command=["python", "-c", "a\0b"])
    bad.until("silent", lambda status: status.get("phase") == "Refused", "it is refused")
    events = ("get", "events", "--field-selector=involvedObject.name=silent,reason=Refused")
    eventually(lambda: bad.kubectl(*events, "-o", "name"), "kubectl describe says so, too")
    assert "spec.command" in bad.status("silent")["message"]
