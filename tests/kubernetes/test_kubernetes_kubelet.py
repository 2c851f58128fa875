"""Emulated nodes in a real control plane: pods are processes, and what breaks is really broken."""

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from waiting import eventually

from holdfast.keeper import processes
from holdfast.lab.emulator.kubelet import container as containers
from holdfast.lab.emulator.kubelet.joined import Joined
from holdfast.lab.emulator.kubelet.knobs import Knobs
from holdfast.lab.emulator.namespaces import Kind, best_kind

pytestmark = [pytest.mark.kubernetes, pytest.mark.cluster]

OPTIONS = ["--racks", "2", "--lease-s", "4", "--restart-base-s", "0.5", "--token-oldest-s", "2"]
COUNT = "i=0; while :; do i=$((i+1)); echo $i; sleep 0.1; done"


@pytest.fixture(scope="module")
def nodes(plane, tmp_path_factory) -> Iterator[Joined]:
    if best_kind()[0] is Kind.LOOPBACK:
        pytest.skip(f"no namespaces here: {best_kind()[1]}")
    root = tmp_path_factory.mktemp("nodes")
    with Joined(plane, root, nodes=2, more=[*OPTIONS, "--image", "busybox"]) as joined:
        joined.ready()
        yield joined
    left = joined.leftovers()
    assert left.count == 0, left


class Pods:
    """Pods of one test, each with one container `main` of a shell, all gone after it."""

    def __init__(self, plane, nodes: Joined) -> None:
        self._plane = plane
        self.nodes = nodes
        self._names: list[str] = []

    def run(self, name: str, script: str, **spec: Any) -> None:
        container = {"name": "main", "image": "busybox", "command": ["sh", "-c", script]}
        container |= spec.pop("container", {})
        spec = {"containers": [container], "automountServiceAccountToken": False, **spec}
        self.apply({"kind": "Pod", "metadata": {"name": name}, "spec": spec})
        self._names.append(name)

    def apply(self, manifest: dict[str, Any]) -> None:
        self._plane.kubectl(
            "apply", "-f", "-", input=yaml.safe_dump({"apiVersion": "v1"} | manifest)
        )

    def get(self, name: str) -> dict[str, Any] | None:
        said = self._plane.kubectl("get", "pod", name, "--ignore-not-found", "-o", "json")
        return json.loads(said) if said else None

    def seen(self, name: str, fact: Callable[[dict[str, Any]], Any], what: str) -> dict[str, Any]:
        """The pod once `fact` holds for it."""

        def holds() -> dict[str, Any] | None:
            pod = self.get(name)
            return pod if pod and fact(pod) else None

        return eventually(holds, what)

    def running(self, name: str) -> dict[str, Any]:
        return self.seen(name, ready, f"{name} is ready")

    def ended(self, name: str) -> dict[str, Any]:
        """The container's last state, once the pod is over."""
        pod = self.seen(name, lambda pod: phase(pod) in ("Succeeded", "Failed"), f"{name} is over")
        return main(pod)["state"]["terminated"] | {"phase": phase(pod)}

    def output(self, name: str) -> str:
        """Of the last life of its container, as it is on the machine."""
        node = next(iter(self.nodes.root.glob(f"nodes/*/pods/default_{name}_*")))
        lives = sorted(node.glob("main/*.log"), key=lambda path: int(path.stem))
        return lives[-1].read_text() if lives else ""

    def delete(self, name: str, *options: str) -> None:
        self._plane.kubectl("delete", "pod", name, "--wait=false", *options)

    def end(self) -> None:
        for name in self._names:
            self.delete(name, "--ignore-not-found", "--grace-period=1")
        for name in self._names:
            eventually(lambda name=name: self.get(name) is None, f"{name} is gone")


@contextmanager
def pods_on(plane, nodes: Joined) -> Iterator[Pods]:
    made = Pods(plane, nodes)
    try:
        yield made
    finally:
        made.end()


@pytest.fixture
def pods(plane, nodes) -> Iterator[Pods]:
    with pods_on(plane, nodes) as made:
        yield made


def phase(pod: dict[str, Any]) -> str:
    return pod["status"]["phase"]


def main(pod: dict[str, Any]) -> dict[str, Any]:
    return pod["status"]["containerStatuses"][0]


def ready(pod: dict[str, Any]) -> bool:
    conditions = pod["status"].get("conditions", [])
    return any(item["type"] == "Ready" and item["status"] == "True" for item in conditions)


def waiting(pod: dict[str, Any]) -> str:
    """Why its container waits, "" where it does not."""
    told = pod["status"].get("containerStatuses", [])
    return told[0]["state"].get("waiting", {}).get("reason", "") if told else ""


def on(node: str) -> dict[str, Any]:
    return {"nodeSelector": {"kubernetes.io/hostname": node}}


def node_is(plane, name: str, word: str) -> bool:
    path = "jsonpath={.status.conditions[?(@.type=='Ready')].status}"
    return plane.kubectl("get", "node", name, "-o", path) == word


def running(nodes: Joined, uid: str) -> list[int]:
    """Processes of this machine that still write the log of the pod, a container's init first."""
    outputs = {pid: Path(f"/proc/{pid}/fd/1") for pid in sorted(processes.marked(nodes.run_id))}
    return [pid for pid, to in outputs.items() if to.is_symlink() and uid in str(to.readlink())]


def writes(plane, subresource: str) -> list[dict[str, Any]]:
    """What was done to this subresource of any object, by the audit log."""
    told = [event for event in plane.audit() if "objectRef" in event]
    return [event for event in told if event["objectRef"].get("subresource") == subresource]


def renewed(plane, name: str) -> str:
    path = "jsonpath={.spec.renewTime}"
    return plane.kubectl("get", "lease", "-n", "kube-node-lease", name, "-o", path)


def _lease(plane, name: str, owner: str) -> dict[str, Any] | None:
    """The node's Lease, once it is owned by this Node: one of an earlier one may be there."""
    told = plane.kubectl("get", "leases", "-n", "kube-node-lease", "-o", "json")
    found = [item for item in json.loads(told)["items"] if item["metadata"]["name"] == name]
    owners = [ref["uid"] for item in found for ref in item["metadata"]["ownerReferences"]]
    return found[0] if owners == [owner] else None


def test_nodes_register_with_rack_resources_and_a_lease_of_their_own(plane, nodes):
    found = {
        item["metadata"]["name"]: item
        for item in json.loads(plane.kubectl("get", "nodes", "-o", "json"))["items"]
    }
    racks = [
        found[name]["metadata"]["labels"]["topology.holdfast.dev/rack"] for name in nodes.names
    ]
    assert racks == ["rack-1", "rack-2"]
    room = found["node-1"]["status"]["allocatable"]
    assert room == {"cpu": "16", "memory": "64Gi", "pods": "110", "nvidia.com/gpu": "8"}
    owner = found["node-1"]["metadata"]["uid"]
    lease = eventually(lambda: _lease(plane, "node-1", owner), "the lease is this node's")["spec"]
    assert lease["holderIdentity"] == "node-1"
    assert lease["leaseDurationSeconds"] == 4


def test_a_pod_gets_its_environment_and_volumes_and_ends_with_its_exit_code(plane, nodes, pods):
    pods.apply({"kind": "ConfigMap", "metadata": {"name": "words"}, "data": {"greeting": "hello"}})
    variable = {
        "GREETING": {"configMapKeyRef": {"name": "words", "key": "greeting"}},
        "ABSENT": {"configMapKeyRef": {"name": "none", "key": "none", "optional": True}},
        "NODE": {"fieldRef": {"fieldPath": "spec.nodeName"}},
        "IP": {"fieldRef": {"fieldPath": "status.podIP"}},
    }
    script = (
        "echo $0 $NODE $IP ${ABSENT-absent}; stat -f -c %S*%b /run/memory; cat /run/told/labels;"
        "echo; echo kept > /run/disk/file; ls /run; ls /proc | grep -c '^[0-9]'; exit 3"
    )
    container = {
        "args": ["$(GREETING)"],
        "env": [{"name": name, "valueFrom": source} for name, source in variable.items()],
        "volumeMounts": [
            {"name": name, "mountPath": f"/run/{name}"} for name in ("memory", "disk", "told")
        ],
    }
    labels = {"path": "labels", "fieldRef": {"fieldPath": "metadata.name"}}
    volumes = [
        {"name": "memory", "emptyDir": {"medium": "Memory", "sizeLimit": "8Mi"}},
        {"name": "disk", "emptyDir": {}},
        {"name": "told", "downwardAPI": {"items": [labels]}},
    ]
    before = len(writes(plane, "status"))
    pods.run(
        "whole", script, restartPolicy="Never", container=container, volumes=volumes, **on("node-2")
    )
    end = pods.ended("whole")
    assert (end["phase"], end["exitCode"], end["reason"]) == ("Failed", 3, "Error")
    said = plane.kubectl("logs", "whole").split()
    assert said[:4] == ["hello", "node-2", "198.18.1.2", "absent"]
    assert "4096*2048" in said, "eight mebibytes"
    assert {"whole", "disk", "memory", "told"} <= set(said)
    assert int(said[-1]) <= 4, "it sees its own processes only"
    wrote = writes(plane, "status")[before:]
    mine = [one for one in wrote if one["objectRef"].get("name") == "whole"]
    who = {event["user"].get("username", "") for event in mine}
    assert who == {"system:node:node-2"}


def test_a_volume_above_our_programs_does_not_hide_them(pods):
    above = str(containers.OURS.parent)
    main = {"volumeMounts": [{"name": "above", "mountPath": above}]}
    main["command"] = [sys.executable, "-c", "import holdfast.keeper.pod; print('here')"]
    volumes = [{"name": "above", "emptyDir": {}}]
    pods.run("covered", "", restartPolicy="Never", container=main, volumes=volumes)
    assert pods.ended("covered")["exitCode"] == 0
    assert pods.output("covered") == "here\n"


def test_a_token_is_bound_to_its_pod_and_renewed_in_place(plane, pods):
    source = {"serviceAccountToken": {"audience": "holdfast", "path": "token"}}
    container = {"volumeMounts": [{"name": "token", "mountPath": "/run/identity"}]}
    volumes = [{"name": "token", "projected": {"sources": [source]}}]
    script = "while :; do cksum < /run/identity/token; sleep 0.2; done"
    before = len(writes(plane, "token"))
    pods.run("token", script, container=container, volumes=volumes)
    node = pods.running("token")["spec"]["nodeName"]
    eventually(lambda: len(set(pods.output("token").splitlines())) >= 2, "there is a newer token")
    asked = [event["user"].get("username", "") for event in writes(plane, "token")[before:]]
    assert {user for user in asked if user.startswith("system:node:")} == {f"system:node:{node}"}


def test_a_deleted_pod_is_asked_first_and_killed_after_its_grace(pods):
    polite = "trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.05; done"
    stubborn = "trap 'echo no' TERM; echo up; while :; do sleep 0.05; done"
    pods.run("polite", polite)
    pods.run("stubborn", stubborn)
    for name in ("polite", "stubborn"):
        pods.running(name)
        eventually(lambda name=name: "up" in pods.output(name), "it handles SIGTERM")
        pods.delete(name, "--grace-period=1")
    for name in ("polite", "stubborn"):
        eventually(lambda name=name: pods.get(name) is None, f"{name} is gone")
    assert pods.output("polite").split() == ["up", "bye"]
    assert pods.output("stubborn").split() == ["up", "no"]


def test_an_unknown_image_is_not_pulled_and_a_missing_command_is_said(pods):
    pods.run("unknown", "true", container={"image": "no/such:1"})
    pods.run("nothing", "", restartPolicy="Never", container={"command": ["/no/such/command"]})
    pods.seen("unknown", lambda pod: waiting(pod) == "ImagePullBackOff", "it cannot be pulled")
    end = pods.ended("nothing")
    assert (end["reason"], end["exitCode"]) == ("StartError", 128)
    assert "/no/such/command" in end["message"]


def test_a_container_that_ends_is_started_again_with_backoff(pods):
    words = {"terminationMessagePolicy": "FallbackToLogsOnError"}
    pods.run("crash", "echo life; exit 7", container=words)
    pod = pods.seen(
        "crash", lambda pod: waiting(pod) and main(pod)["restartCount"] >= 2, "it was started again"
    )
    last = main(pod)["lastState"]["terminated"]
    assert (last["exitCode"], last["message"]) == (7, "life\n")
    assert phase(pod) == "Running"
    pods.seen("crash", lambda pod: waiting(pod) == "CrashLoopBackOff", "it backs off")


def test_probes_say_who_is_ready_and_have_the_dead_started_again(pods):
    serve = "mkdir /run/www; cd /run/www; python -m http.server 8123 & sleep 1000"
    often = {"periodSeconds": 1, "failureThreshold": 1}
    ask = {"httpGet": {"path": "/well", "port": 8123}, **often}
    look = {"exec": {"command": ["sh", "-c", "! test -e /run/ill"]}, **often}
    come = {"tcpSocket": {"port": 8123}, "periodSeconds": 1, "failureThreshold": 60}
    container = {"readinessProbe": ask, "livenessProbe": look, "startupProbe": come}
    pods.run("probed", serve, container=container, terminationGracePeriodSeconds=1)
    pod = pods.seen("probed", lambda pod: waiting(pod) == "" and main(pod)["started"], "it is up")
    assert not ready(pod)
    init = f"/proc/{running(pods.nodes, pod['metadata']['uid'])[0]}/root/run"
    Path(init, "www", "well").touch()
    pods.running("probed")
    Path(init, "ill").touch()
    pod = pods.seen("probed", lambda pod: main(pod)["restartCount"] == 1, "it is started again")
    assert main(pod)["lastState"]["terminated"]["exitCode"] == 137


def test_memory_is_limited_where_it_can_be(plane, nodes, pods):
    if "no memory cgroups" in plane.kubectl("describe", "node", "node-1"):
        pytest.skip("no memory cgroups here; the node says so")
    eat = ["python", "-c", "x = bytearray(200 << 20)"]
    limit = {"limits": {"memory": "48Mi"}}
    pods.run("greedy", "", restartPolicy="Never", container={"command": eat, "resources": limit})
    end = pods.ended("greedy")
    assert (end["reason"], end["exitCode"]) == ("OOMKilled", 137)


def test_a_killed_kubelet_adopts_what_runs_and_ends_what_nobody_wants(nodes, pods):
    pods.run("stays", COUNT)
    pods.run("goes", COUNT)
    before = main(pods.running("stays"))
    goes = pods.running("goes")["metadata"]["uid"]
    killed = nodes.kubelet_pid()
    nodes.kill_kubelet()
    pods.delete("goes", "--grace-period=0", "--force")
    eventually(lambda: nodes.kubelet_pid() not in (0, killed), "another kubelet")
    said = len(pods.output("stays"))
    eventually(lambda: len(pods.output("stays")) > said, "it went on")
    eventually(lambda: not running(nodes, goes), "what was deleted meanwhile is killed")
    now = main(pods.running("stays"))
    assert (now["containerID"], now["restartCount"]) == (before["containerID"], 0)
    counted = pods.output("stays").split()
    assert int(counted[-1]) == len(counted), "one life"


def test_an_unplugged_node_loses_its_lease_hears_nothing_and_its_processes_go_on(
    plane, nodes, pods
):
    pods.run("left", COUNT, tolerations=[{"operator": "Exists"}], **on("node-1"))
    uid = pods.running("left")["metadata"]["uid"]
    nodes.unplug("node-1")
    pods.delete("left", "--grace-period=0", "--force")
    eventually(lambda: node_is(plane, "node-1", "Unknown"), "it is not heard of")
    said = len(pods.output("left"))
    eventually(lambda: len(pods.output("left")) > said, "its process goes on")
    assert node_is(plane, "node-2", "True")
    nodes.plug("node-1")
    eventually(lambda: node_is(plane, "node-1", "True"), "it is back")
    eventually(lambda: not running(nodes, uid), "it heard that the pod is gone")


def test_a_frozen_kubelet_says_nothing_and_what_runs_goes_on(plane, nodes, pods):
    pods.run("calm", COUNT, **on("node-2"))
    pods.running("calm")
    nodes.turn("node-2", Knobs(frozen=True))
    said = len(pods.output("calm"))
    pods.delete("calm", "--grace-period=0")
    eventually(lambda: len(pods.output("calm")) > said + 20, "it goes on")
    before = renewed(plane, "node-2")
    eventually(
        lambda: len(pods.output("calm")) > said + 80, "it goes on still, for two beats and more"
    )
    assert renewed(plane, "node-2") == before
    nodes.turn("node-2", Knobs())
    eventually(lambda: pods.get("calm") is None, "it heard at last")
    eventually(lambda: renewed(plane, "node-2") != before, "it renews again")


def test_a_kubelet_that_drops_or_lies_does_not_tell_an_end(plane, nodes, pods):
    broken = {"node-1": Knobs(drops_statuses=True), "node-2": Knobs(lies=True)}
    for node in broken:
        pods.run(f"on-{node}", COUNT, restartPolicy="Never", **on(node))
    for node, how in broken.items():
        uid = pods.running(f"on-{node}")["metadata"]["uid"]
        nodes.turn(node, how)
        processes.kill(running(nodes, uid)[0])
        eventually(lambda uid=uid: not running(nodes, uid), "its processes ended")
        before = renewed(plane, node)
        eventually(lambda node=node, before=before: renewed(plane, node) != before, "it beats")
    assert [phase(pods.get(f"on-{node}")) for node in broken] == ["Running", "Running"]
    for node in broken:
        nodes.turn(node, Knobs())
        end = pods.ended(f"on-{node}")
        assert (end["phase"], end["exitCode"], end["signal"]) == ("Failed", 137, 9)


def test_a_node_that_is_killed_is_lost_with_all_that_ran_there(plane, nodes, pods):
    pods.run("doomed", COUNT, tolerations=[{"operator": "Exists"}], **on("node-1"))
    uid = pods.running("doomed")["metadata"]["uid"]
    nodes.kill("node-1")
    eventually(lambda: not running(nodes, uid), "the kernel ended all of it")
    eventually(lambda: node_is(plane, "node-1", "Unknown"), "it is not heard of")
    pods.delete("doomed", "--grace-period=0", "--force")


@pytest.mark.parametrize(
    "kind", [Kind.ROOT, Kind.USER] if os.geteuid() == 0 else [Kind.USER], ids=str
)
def test_nothing_outlives_the_process_that_keeps_the_nodes(plane, tmp_path, kind):
    if best_kind()[0] is Kind.LOOPBACK:
        pytest.skip(f"no namespaces here: {best_kind()[1]}")
    with Joined(
        plane, tmp_path, nodes=1, kind=kind, more=[*OPTIONS, "--image", "busybox"]
    ) as joined:
        joined.ready()
        with pods_on(plane, joined) as made:
            made.run("counts", COUNT, **on("node-1"))  # those of the other tests have a node-2
            uid = made.running("counts")["metadata"]["uid"]
            kept = joined.node("node-1").host_pid
            processes.kill(joined.pid)
            eventually(lambda: not running(joined, uid), "it ends with its node")
            eventually(lambda: joined.node("node-1").host_pid not in (0, kept), "another begins")
            eventually(lambda: running(joined, uid), "with the pod that is still wanted")
    assert joined.leftovers().count == 0
