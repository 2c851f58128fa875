"""Jobs that want the same nodes, on a real API server and scheduler: one after the other gets all.

Nodes are Node objects without machines, so pods are bound and never run; what a job holds while it
cannot start is what is looked at.
"""

import itertools
import json
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from random import Random
from typing import Any

import httpx
import pytest
from operated import Operated, operated, said
from waiting import eventually

from holdfast.kubeapi import paths
from holdfast.lab.kubernetes.plane import ControlPlane, KubectlFailed

pytestmark = [pytest.mark.kubernetes, pytest.mark.slow]

NODES = 4
LOOK_S = 0.3
SAID_LATE_S = 5.0
"""How long a status may say what was so: a pod can be gone before the driver hears of it."""
CHURN_S = 20.0
DEVICE = "example.com/device"
HALF = {"resources": {"requests": {"cpu": "5"}}}
"""More than half of the eight that a node has."""


@pytest.fixture(scope="module")
def fleet(crd: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operated]:
    with operated(crd, tmp_path_factory.mktemp("driver"), name="compete", nodes=NODES) as driven:
        yield driven


@pytest.fixture(autouse=True)
def cleared(fleet: Operated) -> Iterator[None]:
    yield
    fleet.delete()
    fleet.kubectl("delete", "quota", "--all")
    fleet.end_pods()
    eventually(lambda: not all_pods(fleet), "no pod is left")


def all_pods(fleet: Operated) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = fleet.plane.read(paths.pods(fleet.namespace))["items"]
    return found


def end_pod(fleet: Operated, name: str) -> None:
    fleet.plane.delete(paths.pods(fleet.namespace, name), grace_s=0)


def make_pod(fleet: Operated, pod: dict[str, Any]) -> None:
    fleet.plane.apply(paths.pods(fleet.namespace, pod["metadata"]["name"]), pod)


def held(fleet: Operated) -> dict[str, int]:
    """By job, how many of its pods have nodes."""
    found: dict[str, int] = {}
    for pod in all_pods(fleet):
        job = pod["metadata"].get("labels", {}).get("holdfast.dev/job")
        if job and "nodeName" in pod["spec"] and "deletionTimestamp" not in pod["metadata"]:
            found[job] = found.get(job, 0) + 1
    return found


def allocated(fleet: Operated) -> list[str]:
    jobs = fleet.plane.read(paths.training_jobs(fleet.namespace))["items"]
    return [
        job["metadata"]["name"]
        for job in jobs
        if said(job.get("status", {}), "Allocated") == "True"
    ]


class Lookout:
    """Looks again and again: what it saw that may not be, in sentences. It also ends pods.

    `wanted`: nodes, by job; `within_s`: for how long a job may hold some of its nodes and not all.
    """

    def __init__(self, fleet: Operated, wanted: Mapping[str, int], within_s: float = 20.0) -> None:
        self._fleet, self._wanted, self._within_s = fleet, wanted, within_s
        self._since_s: dict[str, float] = {}
        self._over = threading.Event()
        self.wrong: set[str] = set()

    @contextmanager
    def looking(self) -> Iterator["Lookout"]:
        thread = threading.Thread(target=self._look)
        thread.start()
        try:
            yield self
        finally:
            self._over.set()
            thread.join()

    def _look(self) -> None:
        while not self._over.wait(LOOK_S):
            try:
                self._end_pods()
                whole = allocated(self._fleet)
                has, now_s = held(self._fleet), time.monotonic()
            except (httpx.HTTPError, KubectlFailed):
                continue  # the API server has too much to do
            self._note(whole, has, now_s)

    def _note(self, whole: list[str], has: Mapping[str, int], now_s: float) -> None:
        """What is so now, and whether it was for too long."""
        half = {job for job, count in has.items() if count < self._wanted[job]}
        early = {job for job in whole if has.get(job, 0) < self._wanted[job]}
        lasts_s = {f"{job} holds some nodes and not all": self._within_s for job in half}
        lasts_s |= {f"{job} is Allocated, and is not whole": SAID_LATE_S for job in early}
        self._since_s = {what: self._since_s.get(what, now_s) for what in lasts_s}
        self.wrong |= {what for what, at_s in self._since_s.items() if now_s - at_s > lasts_s[what]}

    def _end_pods(self) -> None:
        """As their kubelets would: what is being deleted is gone."""
        pods = (pod["metadata"] for pod in all_pods(self._fleet))
        for each in pods:
            if "deletionTimestamp" in each:
                end_pod(self._fleet, each["name"])


def whole(fleet: Operated, wanted: int) -> set[str]:
    """Jobs that have all their nodes."""
    return {job for job, count in held(fleet).items() if count == wanted}


def goes_first(fleet: Operated, names: set[str]) -> str:
    """One of these jobs has all its nodes, and ends; the others say that they wait for it."""
    (first,) = eventually(lambda: whole(fleet, 3) & names, f"one of {sorted(names)} has all")
    fleet.until(first, lambda status: said(status, "Allocated") == "True", "it says so")
    for other in names - {first}:
        fleet.until(
            other, lambda status: f"{first} has 3" in status.get("message", ""), "whom it waits for"
        )
        assert said(fleet.status(other), "Allocated") != "True"
    assert set(held(fleet)) == {first}
    fleet.delete(first)
    eventually(lambda: first not in held(fleet), "its nodes are free")
    return first


@pytest.mark.parametrize("jobs", [2, 3])
def test_of_jobs_that_want_the_same_nodes_one_after_the_other_gets_all(
    fleet: Operated, jobs: int
) -> None:
    names = {f"equal-{number}" for number in range(jobs)}
    with Lookout(fleet, dict.fromkeys(names, 3)).looking() as lookout:
        for name in sorted(names):
            fleet.apply(name, nodes=3, pod=HALF)
        left = set(names)
        while left:
            left -= {goes_first(fleet, left)}
    assert lookout.wrong == set()


def test_jobs_of_uneven_nodes_each_get_such_as_have_room_and_wait_for_those_who_have_them(
    fleet: Operated,
) -> None:
    """Two nodes are small and have the device, the others are large."""
    jobs = ("device", "large", "other")
    with sized(fleet, small=2), Lookout(fleet, dict.fromkeys(jobs, 2)).looking() as lookout:
        fleet.apply("device", nodes=2, pod=wants(cpu="1", device="1"))
        fleet.apply("large", nodes=2, pod=wants(cpu="5"))
        eventually(lambda: whole(fleet, 2) == {"device", "large"}, "both have all")
        on = {pod["spec"]["nodeName"] for pod in fleet.bound("device", 2)}
        assert on == {"compete-1", "compete-2"}
        fleet.apply("other", nodes=2, pod=wants(cpu="1", device="1"))
        fleet.until("other", lambda status: "device has 2" in status.get("message", ""), "why")
        fleet.delete("large")
        eventually(lambda: whole(fleet, 2) == {"device"}, "it has ended")
        assert "other" not in held(fleet), "what is free has no device"
        fleet.delete("device")
        eventually(lambda: whole(fleet, 2) == {"other"}, "its turn")
    assert lookout.wrong == set()


def test_of_jobs_over_their_quota_one_has_all_its_pods_and_the_other_none(fleet: Operated) -> None:
    fleet.kubectl("create", "quota", "three", "--hard=pods=3")
    used = ("get", "quota", "three", "-o", "jsonpath={.status.used.pods}")
    eventually(lambda: fleet.kubectl(*used) == "0", "the quota is known")
    with Lookout(fleet, {"quota-1": 2, "quota-2": 2}).looking() as lookout:
        for name in ("quota-1", "quota-2"):
            fleet.apply(name, nodes=2, pod=HALF)
        (first,) = eventually(lambda: whole(fleet, 2), "one has all")
        (other,) = {"quota-1", "quota-2"} - {first}
        fleet.until(
            other, lambda status: "exceeded quota: three" in status.get("message", ""), "why"
        )
        fleet.delete(first)
        eventually(lambda: whole(fleet, 2) == {other}, "its turn")
    assert lookout.wrong == set()


def test_pods_of_others_that_come_and_go_keep_no_job_from_its_nodes_for_ever(
    fleet: Operated,
) -> None:
    """They take nodes between the look and the bind: what was begun in vain is given back."""
    with Lookout(fleet, {"busy-1": 2, "busy-2": 2}, within_s=60.0).looking() as lookout:
        with coming_and_going(fleet):
            for name in ("busy-1", "busy-2"):
                fleet.apply(name, nodes=2, pod=HALF)
            time.sleep(CHURN_S)
        eventually(lambda: whole(fleet, 2) == {"busy-1", "busy-2"}, "both have all", 240.0)
    assert lookout.wrong == set()


def wants(**amounts: str) -> dict[str, Any]:
    """A pod's resources."""
    named = {{"device": DEVICE}.get(name, name): amount for name, amount in amounts.items()}
    return {"resources": {"requests": named, "limits": named}}


@contextmanager
def sized(fleet: Operated, *, small: int) -> Iterator[None]:
    """So many nodes have two cpus and a device meanwhile."""
    nodes = [f"compete-{number + 1}" for number in range(small)]

    def have(cpu: str, device: str) -> None:
        holds = {"cpu": cpu, DEVICE: device}
        for node in nodes:
            change = {"status": {"capacity": holds, "allocatable": holds}}
            fleet.plane.patch(paths.nodes(node, "status"), change)

    have("2", "1")
    try:
        yield
    finally:
        have("8", "0")


@contextmanager
def coming_and_going(fleet: Operated) -> Iterator[None]:
    """Pods of others on nodes that are drawn, each for some seconds."""
    over, rng = threading.Event(), Random(1)

    def come_and_go() -> None:
        for number in itertools.count():
            if over.is_set():
                return
            nodes = rng.sample(range(1, NODES + 1), NODES - 1)
            theirs = [other(f"other-{number}-{place}", f"compete-{place}") for place in nodes]
            for pod in theirs:
                with suppress(httpx.HTTPError, KubectlFailed):
                    make_pod(fleet, pod)
            over.wait(rng.uniform(0.0, 2.0))
            for pod in theirs:
                with suppress(httpx.HTTPError, KubectlFailed):
                    end_pod(fleet, pod["metadata"]["name"])
            over.wait(rng.uniform(0.0, 0.5))

    thread = threading.Thread(target=come_and_go)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def other(name: str, node: str) -> dict[str, Any]:
    spec = {"nodeName": node, "containers": [{"name": "main", "image": "other:1", **HALF}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def test_a_job_whose_pod_was_pushed_off_gives_all_its_nodes_back_and_another_has_them(
    fleet: Operated, above: str
) -> None:
    """The scheduler takes one of its pods away for somebody else's of more priority."""
    wanted = {"low": 4, "small": 2}
    with Lookout(fleet, wanted, within_s=60.0).looking() as lookout:
        fleet.apply("low", nodes=4, pod=HALF)
        eventually(lambda: held(fleet) == {"low": 4}, "it has all")
        pushy = other("pushy", "")
        pushy["spec"] |= {"priorityClassName": above}
        make_pod(fleet, pushy)
        eventually(lambda: held(fleet).get("low", 0) < 4, "one of its pods is taken")
        fleet.apply("small", nodes=2, pod=HALF)
        eventually(lambda: held(fleet) == {"small": 2}, "what is left has another")
        fleet.until(
            "low", lambda status: "small has 2" in status.get("message", ""), "whom it waits for"
        )
        end_pod(fleet, "pushy")
        fleet.delete("small")
        eventually(lambda: held(fleet) == {"low": 4}, "it has all again")
    assert lookout.wrong == set()


@pytest.fixture
def above(fleet: Operated) -> Iterator[str]:
    """A class whose pods push off those of none."""
    name = "above-competing"
    body = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 1_000}
    fleet.kubectl("apply", "-f", "-", input=json.dumps({**body, "metadata": {"name": name}}))
    yield name
    fleet.kubectl("delete", "priorityclass", name)
