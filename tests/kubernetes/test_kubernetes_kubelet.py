"""Emulated nodes in a real control plane: pods are processes, as a kubelet would have them."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kubelet_pods import (
    Pods,
    joined_nodes,
    main,
    on,
    phase,
    pods_on,
    ready,
    running,
    started,
    waiting,
    writes,
)
from waiting import eventually

from holdfast.lab.emulator.kubelet import container as containers
from holdfast.lab.emulator.kubelet.joined import Joined

pytestmark = [pytest.mark.kubernetes, pytest.mark.cluster]


@pytest.fixture(scope="module")
def nodes(plane, tmp_path_factory) -> Iterator[Joined]:
    with joined_nodes(plane, tmp_path_factory.mktemp("nodes")) as joined:
        yield joined


@pytest.fixture
def pods(plane, nodes) -> Iterator[Pods]:
    with pods_on(plane, nodes) as made:
        yield made


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
    no_room_yet = {"system:kube-scheduler"}  # where it has not seen all of a new node
    assert who - no_room_yet == {"system:node:node-2"}


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
    for name, grace_s in (("polite", 60), ("stubborn", 8)):  # as long as a shell may stand still
        pods.running(name)
        eventually(lambda name=name: "up" in pods.output(name), "it handles SIGTERM")
        pods.delete(name, f"--grace-period={grace_s}")
    for name in ("polite", "stubborn"):
        eventually(lambda name=name: pods.get(name) is None, f"{name} is gone")
    assert pods.output("polite").split() == ["up", "bye"]
    assert pods.output("stubborn").split() == ["up", "no"]


def test_who_deletes_a_pod_again_can_shorten_its_grace(pods):
    pods.run("patient", "trap 'echo no' TERM; echo up; while :; do sleep 0.05; done")
    pods.running("patient")
    eventually(lambda: "up" in pods.output("patient"), "it handles SIGTERM")
    pods.delete("patient", "--grace-period=600")
    eventually(lambda: "no" in pods.output("patient"), "it was asked")
    pods.delete("patient", "--grace-period=1")
    eventually(lambda: pods.get("patient") is None, "it is gone")


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
    often = {"periodSeconds": 1, "failureThreshold": 1, "timeoutSeconds": 60}
    ask = {"httpGet": {"path": "/well", "port": 8123}, **often}
    look = {"exec": {"command": ["sh", "-c", "! test -e /run/ill"]}, **often}
    come = {"tcpSocket": {"port": 8123}, "periodSeconds": 1, "failureThreshold": 60}
    container = {"readinessProbe": ask, "livenessProbe": look, "startupProbe": come}
    pods.run("probed", serve, container=container, terminationGracePeriodSeconds=1)
    pod = pods.seen("probed", started, "it is up")
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
