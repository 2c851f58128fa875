"""A driver process on a real API server, as people use it: by objects alone.

Its nodes are Node objects without machines, so pods are bound and never run.
"""

import json
import re
from collections.abc import Iterator

import httpx
import pytest
from operated import Operated, said
from operated import operated as started
from waiting import DEADLINE_S, eventually

from holdfast.lab.kubernetes.plane import ControlPlane

pytestmark = pytest.mark.kubernetes

CLASS = {
    "apiVersion": "scheduling.k8s.io/v1",
    "kind": "PriorityClass",
    "metadata": {"name": "above-all-tests"},
    "value": 1_000,
    "preemptionPolicy": "Never",
}


@pytest.fixture(scope="module")
def operated(crd: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operated]:
    with started(crd, tmp_path_factory.mktemp("driver"), name="operated", nodes=2) as driven:
        yield driven


def test_a_job_gets_all_its_pods_and_is_suspended_resumed_and_deleted(operated: Operated) -> None:
    operated.apply("whole", nodes=2)
    operated.until("whole", lambda status: said(status, "Allocated") == "True", "it has nodes")
    eventually(lambda: len(operated.pods("whole")) == 2, "both pods are there")
    operated.patch("whole", suspend=True)
    operated.until("whole", lambda status: said(status, "Suspended") == "True", "suspended")
    eventually(lambda: not operated.pods("whole"), "its pods are given back")
    operated.patch("whole", suspend=False)
    eventually(lambda: len(operated.pods("whole")) == 2, "both pods are there again")
    operated.clear("whole")


def test_prometheus_is_told_of_lists_and_watches_and_of_jobs_looked_at(operated: Operated) -> None:
    operated.apply("looked", nodes=1)
    operated.bound("looked", 1)
    at = f"{operated.url()}/metrics"

    def told(figure: str) -> float:
        """As Prometheus reads it."""
        text = httpx.get(at, trust_env=False, verify=False, timeout=DEADLINE_S).text
        found = re.search(rf"^holdfast_kubernetes_{figure} (\S+)$", text, re.MULTILINE)
        assert found, text
        return float(found[1])

    assert told('lists_total{collection="nodes"}') >= 1, "one more where a watch was lost for long"
    assert told('objects{collection="nodes"}') == 2
    eventually(lambda: told('heard{collection="trainingjobs"}') == 1, "the API server is heard")
    assert told("reconciles_total") > 0
    operated.clear("looked")


def test_a_node_is_free_without_an_executor_and_closed_where_it_is_cordoned(
    operated: Operated,
) -> None:
    def told() -> list[tuple[str, str]]:
        return [(node["state"], node["reason"]) for node in operated.asked("nodes")["items"]]

    eventually(lambda: told() == [("free", "")] * 2, "both are free")
    operated.plane.kubectl("cordon", "operated-2")
    eventually(lambda: told() == [("free", ""), ("closed", "it is cordoned")], "one is closed")
    operated.plane.kubectl("uncordon", "operated-2")
    eventually(lambda: told() == [("free", "")] * 2, "both are free again")


def test_nobody_s_fields_are_tracked_in_the_pods_of_a_gang(operated: Operated) -> None:
    operated.apply("bare", nodes=2)
    pods = operated.bound("bare", 2)
    assert [pod["metadata"].get("managedFields") for pod in pods] == [None, None]
    operated.clear("bare")


def test_a_driver_that_was_killed_takes_its_pods_over(operated: Operated) -> None:
    operated.apply("kept", nodes=2)
    before = eventually(lambda: (pods := operated.pods("kept")) and len(pods) == 2 and pods)
    operated.until("kept", lambda status: said(status, "Allocated") == "True", "it has nodes")
    operated.kill()
    operated.start()
    operated.apply("next", nodes=1)
    operated.until("next", lambda status: "none is free" in status.get("message", ""), "it waits")
    assert operated.pods("kept") == before
    operated.clear("next")
    operated.clear("kept")


def test_a_standby_has_the_priority_of_its_job_so_that_others_do_not_take_it_first(
    operated: Operated,
) -> None:
    manifest = json.dumps(CLASS)
    operated.plane.kubectl("apply", "-f", "-", input=manifest)
    operated.apply("first", nodes=1, standbys=1, pod={"priorityClassName": "above-all-tests"})
    eventually(lambda: len(operated.pods("first")) == 2, "its pod and its standby are there")
    found = operated.get("pods", "-l", "holdfast.dev/job=first")["items"]
    assert [each["spec"]["priority"] for each in found] == [1_000, 1_000]
    operated.clear("first")
    operated.plane.kubectl("delete", "-f", "-", input=manifest)


def test_an_object_made_anew_under_its_name_is_another_job(operated: Operated) -> None:
    operated.apply("again", nodes=1)
    first = eventually(lambda: operated.pods("again"), "its pod is there")
    operated.kill()
    operated.kubectl("delete", "tj", "again", "--wait=false")
    operated.apply("again", nodes=2)
    operated.start()
    old = set(first.values())

    def new() -> bool:
        now = set(operated.pods("again").values())
        return len(now) == 2 and not now & old

    eventually(new, "both pods of the new one are there, and none of the old one")
    operated.clear("again")


def test_a_finished_job_goes_with_its_time_to_live(operated: Operated) -> None:
    operated.apply("brief", nodes=3, deadlineS=1, ttlS=1)
    eventually(lambda: not operated.get("tj", "brief"), "the object is gone")


def test_what_a_driver_before_had_no_time_to_delete_goes_too(operated: Operated) -> None:
    operated.kill()
    operated.apply("left", nodes=1, ttlS=1)
    over = {"type": "Failed", "status": "True", "reason": "Failed", "message": "said by the test"}
    over |= {"lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1}
    status = json.dumps({"status": {"conditions": [over]}})
    operated.kubectl("patch", "tj", "left", "--subresource=status", "--type=merge", "-p", status)
    operated.start()
    eventually(lambda: not operated.get("tj", "left"), "the object is gone")


def test_a_job_keeps_its_pods_while_the_api_server_is_away_and_is_followed_again(
    operated: Operated,
) -> None:
    operated.apply("steady", nodes=1)
    before = eventually(lambda: operated.pods("steady"), "its pod is there")
    operated.plane.stop("kube-apiserver")
    operated.plane.start("kube-apiserver")
    operated.apply("later", nodes=1)
    operated.bound("later", 1)
    assert operated.pods("steady") == before
    operated.clear("later")
    operated.patch("steady", suspend=True)
    eventually(lambda: not operated.pods("steady"), "it is followed again")
    operated.patch("steady", suspend=False)
    after = eventually(lambda: operated.pods("steady"), "its pod is there again")
    assert before != after
    operated.clear("steady")


def test_a_job_that_no_node_can_run_keeps_none_of_them_and_says_why(operated: Operated) -> None:
    operated.apply("greedy", nodes=2, pod={"resources": {"limits": {"nvidia.com/gpu": 8}}})
    operated.until(
        "greedy",
        lambda status: "it has no nvidia.com/gpu" in status.get("message", ""),
        "why it waits",
    )
    assert operated.status("greedy")["phase"] == "Pending"
    assert operated.pods("greedy") == {}
    operated.apply("modest", nodes=2)
    operated.until("modest", lambda status: said(status, "Allocated") == "True", "it has nodes")
    operated.clear("modest")
    operated.clear("greedy")


@pytest.mark.parametrize("away", [False, True], ids=["no volume", "no API server"])
def test_a_driver_that_is_told_to_end_does_so_while_a_pod_waits(
    operated: Operated, away: bool
) -> None:
    missing = {"name": "data", "mountPath": "/data", "persistentVolumeClaim": {"claimName": "none"}}
    operated.apply("homeless", nodes=1, pod={"volumes": [missing]})
    eventually(lambda: operated.pods("homeless"), "its pod waits for its volume")
    if away:
        operated.plane.stop("kube-apiserver")
        operated.driver.end()
        operated.plane.start("kube-apiserver")
    else:
        operated.driver.end()
    operated.start()
    operated.clear("homeless")
