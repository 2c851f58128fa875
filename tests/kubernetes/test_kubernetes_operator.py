"""A driver process on a real API server, as people use it: with kubectl alone.

Its nodes are Node objects without machines, so pods are bound and never run.
"""

import asyncio
import json
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from made_nodes import MadeNodes
from waiting import DEADLINE_S, eventually

from holdfast.driver.adapters.kubernetes.client import Client
from holdfast.lab.kubernetes.plane import ControlPlane

pytestmark = pytest.mark.kubernetes

NAMESPACE = "operated"
NODES = ("operated-1", "operated-2")


class Operated:
    """One namespace with a driver, and what kubectl says of it."""

    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        self.plane = plane
        self._folder = folder
        self.driver: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        words = ["--state", str(self._folder / "state"), "--cluster", "kubernetes"]
        words += ["--kubeconfig", str(self.plane.admin), "--namespace", NAMESPACE]
        words += ["--node-selector", f"made={NAMESPACE}"]
        with (self._folder / "driver.log").open("ab") as log:
            command = [sys.executable, "-m", "holdfast.driver.main", *words]
            self.driver = subprocess.Popen(command, stdout=log, stderr=log)

    def kill(self) -> None:
        assert self.driver is not None
        self.driver.kill()
        self.driver.wait(DEADLINE_S)

    def apply(self, name: str, **spec: Any) -> None:
        pod = {"image": "holdfast-executor:1", **spec.pop("pod", {})}
        document = {
            "apiVersion": "holdfast.dev/v1alpha1",
            "kind": "TrainingJob",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": {"command": ["true"], "pod": pod, **spec},
        }
        self.plane.kubectl("apply", "-f", "-", input=json.dumps(document))

    def patch(self, name: str, **spec: Any) -> None:
        patch = json.dumps({"spec": spec})
        self.kubectl("patch", "tj", name, "--type=merge", "-p", patch)

    def kubectl(self, *words: str) -> str:
        return self.plane.kubectl("-n", NAMESPACE, *words)

    def get(self, *words: str) -> dict[str, Any]:
        said = self.kubectl("get", *words, "--ignore-not-found", "-o", "json")
        found: dict[str, Any] = json.loads(said) if said else {}
        return found

    def status(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.get("tj", name).get("status", {})
        return found

    def until(self, name: str, fact: Callable[[dict[str, Any]], object], what: str) -> None:
        eventually(lambda: fact(self.status(name)), what)

    def pods(self, job: str) -> dict[str, str]:
        """UIDs by name of the job's pods that are to stay."""
        found = self.get("pods", "-l", f"holdfast.dev/job={job}").get("items", ())
        staying = (pod["metadata"] for pod in found)
        return {each["name"]: each["uid"] for each in staying if "deletionTimestamp" not in each}

    def clear(self, job: str) -> None:
        """Delete the job and wait until nothing of it is left."""
        self.kubectl("delete", "tj", job, "--ignore-not-found")
        eventually(lambda: not self.pods(job), f"no pod of {job} is left")


def keep(plane: ControlPlane, made: threading.Event, end: threading.Event) -> None:
    """Have the nodes, Ready, until `end`."""

    async def kept() -> None:
        async with Client.from_kubeconfig(plane.admin, user_agent="tests") as client:
            nodes = MadeNodes(client, *NODES, mark=NAMESPACE)
            await nodes.make()
            made.set()
            keeping = asyncio.create_task(nodes.keep())
            await asyncio.to_thread(end.wait)
            keeping.cancel()
            await asyncio.wait([keeping])
            await nodes.remove()

    asyncio.run(kept())


@pytest.fixture(scope="module")
def operated(crd: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operated]:
    crd.kubectl("create", "namespace", NAMESPACE)
    made, end = threading.Event(), threading.Event()
    keeping = threading.Thread(target=keep, args=(crd, made, end))
    keeping.start()
    driven = Operated(crd, tmp_path_factory.mktemp("driver"))
    try:
        assert made.wait(DEADLINE_S)
        driven.start()
        yield driven
    finally:
        if driven.driver is not None:
            driven.driver.send_signal(signal.SIGTERM)
            driven.driver.wait(DEADLINE_S)
        end.set()
        keeping.join(DEADLINE_S)
        crd.kubectl("delete", "namespace", NAMESPACE, "--wait=false")


def said(status: dict[str, Any], kind: str) -> str:
    """Status of a condition, "" where it is not there."""
    conditions = {each["type"]: each["status"] for each in status.get("conditions", ())}
    return conditions.get(kind, "")


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


def test_a_driver_that_was_killed_takes_its_pods_over(operated: Operated) -> None:
    operated.apply("kept", nodes=2)
    before = eventually(lambda: (pods := operated.pods("kept")) and len(pods) == 2 and pods)
    operated.until("kept", lambda status: said(status, "Allocated") == "True", "it has nodes")
    operated.kill()
    operated.start()
    operated.apply("next", nodes=1)
    operated.until("next", lambda status: "free: 0" in status.get("message", ""), "it waits")
    assert operated.pods("kept") == before
    operated.clear("next")
    operated.clear("kept")


def test_an_object_made_anew_under_its_name_is_another_job(operated: Operated) -> None:
    operated.apply("again", nodes=1)
    first = eventually(lambda: operated.pods("again"), "its pod is there")
    operated.kill()
    operated.kubectl("delete", "tj", "again", "--wait=false")
    operated.apply("again", nodes=2)
    operated.start()
    eventually(lambda: len(operated.pods("again")) == 2, "both pods of the new one are there")
    assert not set(first.values()) & set(operated.pods("again").values())
    operated.clear("again")


def test_a_finished_job_goes_with_its_time_to_live(operated: Operated) -> None:
    operated.apply("brief", nodes=3, deadlineS=1, ttlS=1)
    eventually(lambda: not operated.get("tj", "brief"), "the object is gone")


def test_a_job_runs_on_while_the_api_server_is_away(operated: Operated) -> None:
    operated.apply("steady", nodes=1)
    before = eventually(lambda: operated.pods("steady"), "its pod is there")
    operated.plane.stop("kube-apiserver")
    operated.plane.start("kube-apiserver")
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
