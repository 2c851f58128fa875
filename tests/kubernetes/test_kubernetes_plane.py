"""The control plane is the real one, says who did what, and leaves nothing however it ends."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest
from waiting import DEADLINE_S, eventually

from holdfast.keeper import processes
from holdfast.kubeapi import paths
from holdfast.lab.kubernetes.build import NotHere
from holdfast.lab.kubernetes.fake import FAKE, FakeNodes
from holdfast.lab.kubernetes.kubectl import KubectlFailed, kubectl
from holdfast.lab.kubernetes.plane import COMPONENTS, FOLLOWERS, ControlPlane, NotReady
from holdfast.lab.kubernetes.process import Process
from holdfast.lab.kubernetes.programs import command

pytestmark = pytest.mark.kubernetes

HOLDFAST = [sys.executable, "-m", "holdfast.cli", "lab", "kubernetes"]
NODE = '{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "%s"}}'


def programs_of(folder: Path) -> list[int]:
    """Processes whose command line names the folder, found by looking at the machine."""
    found = []
    for each in Path("/proc").iterdir():
        try:
            words = (each / "cmdline").read_bytes() if each.name.isdigit() else b""
        except OSError:
            continue
        if f"{folder}/".encode() in words:
            found.append(int(each.name))
    return found


def test_a_nodes_identity_is_that_node_and_no_other(plane: ControlPlane) -> None:
    me = plane.kubeconfig("system:node:own-1", ["system:nodes"], name="own-1")
    kubectl(me, ["create", "-f", "-"], input=NODE % "own-1")
    with pytest.raises(KubectlFailed, match='node "own-1" is not allowed to modify node "own-2"'):
        kubectl(me, ["create", "-f", "-"], input=NODE % "own-2")
    with pytest.raises(KubectlFailed, match=r"own-1.*cannot list resource .secrets"):
        kubectl(me, ["get", "secrets", "-A"])
    plane.kubectl("delete", "node", "own-1")


def test_what_is_asked_of_it_without_kubectl_is_so(plane: ControlPlane) -> None:
    """Made, changed, refused with what it says, deleted; what is gone may be deleted."""
    plane.make_namespace("asked")
    at = paths.nodes("asked-1")
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "asked-1"}}
    plane.apply(at, {**node, "spec": {"unschedulable": True}})
    plane.apply(at, node)
    assert "unschedulable" not in plane.read(at)["spec"], "what is applied no more is taken back"
    plane.patch(at, {"metadata": {"labels": {"asked": "yes"}}})
    assert plane.read(at)["metadata"]["labels"]["asked"] == "yes"
    with pytest.raises(KubectlFailed, match=r"spec\.odd: field not declared"):
        plane.apply(at, {**node, "spec": {"odd": 1}})
    for _ in range(2):
        plane.delete(at)
    assert plane.read(at) == {}
    plane.delete(paths.namespaces("asked"))


def test_the_audit_log_says_who_wrote_what_and_by_which_right(plane: ControlPlane) -> None:
    person = plane.kubeconfig("carla", ["speech"], name="carla")
    with pytest.raises(KubectlFailed, match="carla"):
        kubectl(person, ["create", "namespace", "of-carla"])

    def refused() -> list[str]:
        return [
            event["annotations"]["authorization.k8s.io/decision"]
            for event in plane.audit()
            if event["user"].get("username") == "carla" and event["verb"] == "create"
        ]

    assert eventually(refused, "the refusal is in the audit log") == ["forbid"]


def test_a_pod_is_bound_to_a_node_that_is_ready(plane: ControlPlane) -> None:
    """Scheduler and controllers work: a pod of a Deployment gets as far as its node."""
    plane.kubectl("create", "namespace", "bound")
    plane.kubectl("-n", "bound", "create", "deployment", "web", "--image=none", "--replicas=1")
    path = "jsonpath={.items[*].status.conditions[*].reason}"

    def why() -> str:
        return plane.kubectl("-n", "bound", "get", "pods", "-o", path)

    assert eventually(why, "the scheduler has judged the pod") == "Unschedulable"
    plane.kubectl("delete", "namespace", "bound", "--wait=false")


def test_a_fake_node_is_ready_and_says_that_its_pods_run(plane: ControlPlane) -> None:
    try:
        command("kwok")
    except NotHere as missing:
        pytest.skip(str(missing))
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "fake", "annotations": FAKE}}
    pod = {"containers": [{"name": "a", "image": "none"}], "nodeName": "fake"}
    with FakeNodes(plane, lease_s=8):
        plane.kubectl("create", "-f", "-", input=json.dumps(node))
        ready = ("--for=condition=Ready", f"--timeout={DEADLINE_S:g}s")
        plane.kubectl("wait", "node/fake", *ready, within_s=2 * DEADLINE_S)
        plane.kubectl("run", "on-fake", "--image=none", "--overrides", json.dumps({"spec": pod}))
        plane.kubectl("wait", "pod/on-fake", *ready, within_s=2 * DEADLINE_S)
        plane.kubectl("delete", "pod/on-fake", "node/fake")


def gives_up(plane: ControlPlane, component: str) -> None:
    """Have one of its programs end by itself, where it has not."""
    program = plane._running[component]
    if not program.ended:
        processes.kill(eventually(lambda: program.pid, f"{component} runs"))
        eventually(lambda: program.ended, f"{component} has ended")


def pids(plane: ControlPlane) -> set[int]:
    """Of those that follow the API server, once they are there."""
    return {eventually(partial(plane.pid, each), each) for each in FOLLOWERS}


def test_what_gives_up_while_the_api_server_is_away_comes_back_with_it(
    plane: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One before it is started again, one while it starts, and those that may be about to."""
    ready = plane.ready

    def another_gives_up() -> bool:
        gives_up(plane, "kube-scheduler")
        return ready()

    plane.stop("kube-apiserver")
    try:
        gives_up(plane, "kube-controller-manager")
        with pytest.raises(httpx.TransportError):
            plane.read("/api")
        monkeypatch.setattr(plane, "ready", another_gives_up)
    finally:
        plane.start("kube-apiserver")
        monkeypatch.undo()
    plane.check()
    young = pids(plane)
    plane.stop("kube-apiserver")
    plane.start("kube-apiserver")
    assert not young & pids(plane), "they had only just begun, and begin anew"
    plane.kubectl("create", "namespace", "followed")
    account = "/api/v1/namespaces/followed/serviceaccounts/default"
    eventually(lambda: plane.read(account), "a controller has made its account")
    plane.kubectl("delete", "namespace", "followed", "--wait=false")


def test_what_ends_beside_an_api_server_that_is_there_is_missed(plane: ControlPlane) -> None:
    if not isinstance(plane, ControlPlane):
        pytest.skip("programs of ours are ended")
    gives_up(plane, "kube-scheduler")
    try:
        with pytest.raises(NotReady, match="kube-scheduler ended with exit code"):
            plane.check()
    finally:
        plane.stop("kube-scheduler")
        plane.start("kube-scheduler")


@contextmanager
def lab_up(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """The command that keeps a control plane up, once it is up. It would build one first."""
    try:
        command("kube-apiserver")
    except NotHere as missing:
        pytest.skip(str(missing))
    words = [*HOLDFAST, "up", "--folder", str(folder)]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdout=pipe, stderr=pipe, text=True) as lab:
        try:
            assert lab.stdout is not None
            assert lab.stdout.readline().startswith("export KUBECONFIG=")
            yield lab
        finally:
            lab.kill()


@pytest.mark.timeout(240)  # it starts a control plane twice
def test_killed_it_leaves_nothing_and_the_next_one_takes_its_folder_over(tmp_path: Path) -> None:
    folder = tmp_path / "lab"
    here = ["--folder", str(folder)]
    with lab_up(folder) as first:
        eventually(lambda: len(programs_of(folder)) == 2 * len(COMPONENTS), "each has its holder")
        first.kill()
        first.wait()
        eventually(lambda: not programs_of(folder), "no program is left of it")
    with lab_up(folder) as second:
        asked = [*HOLDFAST, "kubectl", *here, "get", "namespaces", "-o", "json"]
        names = json.loads(subprocess.run(asked, check=True, capture_output=True).stdout)["items"]
        assert "kube-system" in {each["metadata"]["name"] for each in names}
        assert subprocess.run([*HOLDFAST, "down", *here], check=False).returncode == 0
        assert second.wait(timeout=DEADLINE_S) == 0
    assert programs_of(folder) == []
    assert not folder.exists()


def test_a_program_that_ends_by_itself_is_told_with_the_end_of_its_log(tmp_path: Path) -> None:
    script = ["sh", "-c", "echo no room >&2; exit 3"]
    process = Process("etcd", script, log=tmp_path / "etcd.log")
    eventually(lambda: process.ended, "it has ended")
    assert process.last_words().endswith("no room")
    assert "etcd ended with exit code 3" in process.last_words()
    process.kill()


def test_a_program_that_does_not_heed_is_killed_when_its_time_is_over(tmp_path: Path) -> None:
    deaf = ["sh", "-c", "trap '' TERM; echo up; while :; do read x < /dev/zero; done"]
    process = Process("deaf", deaf, log=tmp_path / "log", stops_within_s=0.1)
    eventually(lambda: "up" in (tmp_path / "log").read_text(), "it runs")
    pid = process.pid
    process.stop()
    assert not Path(f"/proc/{pid}").exists()


def test_an_audit_log_is_read_from_its_first_whole_event_on(tmp_path: Path) -> None:
    """The API server writes it in blocks, so its size is seldom the end of an event."""
    lines = [b'{"n": 1}\n', b'{"n": 2}\n', b'{"n": 3}\n', b'{"n": 4']
    plane = SimpleNamespace(audit_log=tmp_path / "audit.log")
    plane.audit_log.write_bytes(b"".join(lines))
    end = len(lines[0])
    for since_bytes, first in ((0, 1), (1, 2), (end - 1, 2), (end, 2), (end + 1, 3)):
        read = ControlPlane.audit(plane, since_bytes)  # type: ignore[arg-type]
        assert [event["n"] for event in read] == list(range(first, 4)), since_bytes
