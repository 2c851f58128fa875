"""Emulated nodes in a real control plane: what breaks there is really broken."""

import os
import time
from collections.abc import Iterator

import pytest
from kubelet_pods import (
    COUNT,
    OPTIONS,
    Pods,
    joined_nodes,
    main,
    node_is,
    on,
    phase,
    pods_on,
    renewed,
    running,
)
from waiting import DEADLINE_S, eventually

from holdfast.keeper import processes
from holdfast.lab.emulator.kubelet.joined import Joined
from holdfast.lab.emulator.kubelet.knobs import Knobs
from holdfast.lab.emulator.namespaces import Kind, best_kind

pytestmark = [pytest.mark.kubernetes, pytest.mark.cluster]


@pytest.fixture(scope="module")
def nodes(plane, tmp_path_factory) -> Iterator[Joined]:
    with joined_nodes(plane, tmp_path_factory.mktemp("nodes")) as joined:
        yield joined


@pytest.fixture
def pods(plane, nodes) -> Iterator[Pods]:
    with pods_on(plane, nodes) as made:
        yield made


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
    eventually(lambda: node_is(plane, "node-2", "True"), "the other one is heard of meanwhile")
    nodes.plug("node-1")
    eventually(lambda: node_is(plane, "node-1", "True"), "it is back")
    eventually(lambda: not running(nodes, uid), "it heard that the pod is gone")


def test_a_frozen_kubelet_says_nothing_and_what_runs_goes_on(plane, nodes, pods):
    pods.run("calm", COUNT, **on("node-2"))
    pods.running("calm")
    nodes.turn("node-2", Knobs(frozen=True))
    pods.delete("calm", "--grace-period=0")
    goes_on(pods, "calm", 50)  # for longer than a beat that is under way may take
    before = renewed(plane, "node-2")
    goes_on(pods, "calm", 30)  # for two beats and more
    assert renewed(plane, "node-2") == before
    nodes.turn("node-2", Knobs())
    eventually(lambda: pods.get("calm") is None, "it heard at last")
    eventually(lambda: renewed(plane, "node-2") != before, "it renews again")


def goes_on(pods: Pods, name: str, lines: int) -> None:
    """Return once it has written so many more; each takes it a tenth of a second."""
    said = pods.output(name).count("\n")
    eventually(lambda: pods.output(name).count("\n") > said + lines, "it goes on")


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


def test_a_kubelet_that_drops_its_leases_is_not_heard_of_and_runs_what_it_ran(plane, nodes, pods):
    pods.run("kept", COUNT, tolerations=[{"operator": "Exists"}], **on("node-2"))
    pods.running("kept")
    nodes.turn("node-2", Knobs(drops_leases=True))
    eventually(lambda: node_is(plane, "node-2", "Unknown"), "it is not heard of")
    said = len(pods.output("kept"))
    eventually(lambda: len(pods.output("kept")) > said, "it goes on")
    nodes.turn("node-2", Knobs())
    eventually(lambda: node_is(plane, "node-2", "True"), "it is heard of again")


def test_a_kubelet_that_hears_of_no_pods_begins_them_once_it_does(plane, nodes, pods):
    nodes.turn("node-2", Knobs(drops_pods=True))
    pods.run("unheard", COUNT, **on("node-2"))
    eventually(lambda: pods.get("unheard")["spec"].get("nodeName"), "it is bound")
    before = renewed(plane, "node-2")
    eventually(lambda: renewed(plane, "node-2") != before, "the kubelet beats")
    assert phase(pods.get("unheard")) == "Pending"
    assert not running(nodes, pods.get("unheard")["metadata"]["uid"])
    nodes.turn("node-2", Knobs())
    pods.running("unheard")


def test_a_slow_kubelet_takes_its_time_for_each_pod(nodes, pods):
    nodes.turn("node-2", Knobs(slow_s=3.0))
    began_s = time.monotonic()
    pods.run("late", COUNT, **on("node-2"))
    pods.running("late")
    nodes.turn("node-2", Knobs())
    assert time.monotonic() - began_s >= 3.0


def test_a_pod_made_anew_under_its_name_is_another_to_a_kubelet_that_slept_meanwhile(nodes, pods):
    pods.run("twin", COUNT, **on("node-2"))
    first = pods.running("twin")["metadata"]["uid"]
    nodes.turn("node-2", Knobs(frozen=True))
    pods.delete("twin", "--grace-period=0", "--force")
    eventually(lambda: pods.get("twin") is None, "the object is gone")
    pods.run("twin", COUNT, **on("node-2"))
    second = pods.get("twin")["metadata"]["uid"]
    nodes.turn("node-2", Knobs())
    eventually(lambda: running(nodes, second), "the new one runs")
    eventually(lambda: not running(nodes, first), "the old one is ended")
    assert pods.running("twin")["metadata"]["uid"] == second


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
    with Joined(plane, tmp_path, nodes=1, kind=kind, more=OPTIONS) as joined:
        joined.ready(DEADLINE_S)
        with pods_on(plane, joined) as made:
            made.run("counts", COUNT, **on("node-1"))  # those of the other tests have a node-2
            uid = made.running("counts")["metadata"]["uid"]
            kept = joined.node("node-1").host_pid
            processes.kill(joined.pid)
            eventually(lambda: not running(joined, uid), "it ends with its node")
            eventually(lambda: joined.node("node-1").host_pid not in (0, kept), "another begins")
            eventually(lambda: running(joined, uid), "with the pod that is still wanted")
    assert joined.leftovers().count == 0
