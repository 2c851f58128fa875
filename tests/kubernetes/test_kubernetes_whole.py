"""The whole path: kubectl apply, pods that train on emulated nodes, a node lost, the job done.

The driver has the shipped role and nothing else. What it asked is in the audit log, what it decided
in its journal; one test plays the path, the others read what it left.
"""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from shipped_driver import ACCOUNT, BASE, DRIVER, entries_in, kept_in, shipped_driver
from waiting import eventually

from holdfast.driver.core.effects import Allocate, Distrust, Release
from holdfast.driver.core.state.model import Phase
from holdfast.driver.ports import Entry, Kept
from holdfast.kubeapi import paths
from holdfast.lab.emulator.kubelet.joined import Joined
from holdfast.lab.kubernetes.plane import ControlPlane

pytestmark = [pytest.mark.kubernetes, pytest.mark.cluster]

ASKED_OF_ITSELF = ("authorization.k8s.io", "selfsubjectaccessreviews", "create")
"""What it may do, which anybody may ask."""
ACTING = re.compile(r"holdfast-driver \(term=(\d+) entry=(\d+) (\w+) ([\w.-]+)\)")

JOB = NAMESPACE = "whole"
HERE = ("-n", NAMESPACE)
WORD, WORDS = "only the kubelet reads it", "words"
TRAIN = (
    "import hashlib, os, time\n"
    "print(hashlib.sha256(os.environ['WORD'].encode()).hexdigest(), flush=True)\n"
    "for step in range(45): print(step, flush=True); time.sleep(0.3)"
)
TTL_S = 8


class Left(NamedTuple):
    """What the path left: who was cut, what was journaled and audited, what a person read."""

    cut: str
    shown: list[str]
    kept: Kept
    status: dict[str, Any]
    story: str
    entries: list[Entry]
    audited: list[dict[str, Any]]


class Call(NamedTuple):
    """What an effect asked of the cluster, and which entry of which term it was part of."""

    term: int
    entry: int
    doing: str
    node: str


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("whole")


@pytest.fixture(scope="module")
def nodes(plane: ControlPlane, folder: Path) -> Iterator[Joined]:
    with shipped_driver(plane, folder, namespace=NAMESPACE, nodes=3) as joined:
        yield joined


@pytest.fixture(scope="module")
def since_bytes(plane: ControlPlane) -> int:
    """Where this play begins in the audit log, which is that of all tests."""
    return plane.audit_log.stat().st_size


@pytest.fixture(scope="module")
def left(plane: ControlPlane, folder: Path, since_bytes: int, nodes: Joined) -> Left:
    """Play it: a node of the job is unplugged, the job ends well, and its time to live is over."""
    end_a_pod_that_has_our_name(plane)
    plane.kubectl(*HERE, "create", "secret", "generic", WORDS, f"--from-literal=word={WORD}")
    apply(plane)
    eventually(lambda: status(plane).get("phase") == "Running", "it runs")
    shown = eventually(lambda: shown_by(plane), "both ranks are seen in their pods' logs")
    cut = plane.kubectl(*HERE, *PODS, "-o", "jsonpath={.items[0].spec.nodeName}")
    nodes.unplug(cut)
    eventually(lambda: evicted(plane) == [cut], "its status says whom it does without")
    eventually(lambda: status(plane).get("phase") in ("Succeeded", "Failed"), "it ends")
    last, story = status(plane), eventually(lambda: story_of(plane), "its end is told")
    kept = eventually(lambda: kept_in(folder, JOB, 1), "what rank 1 wrote is kept")
    nodes.plug(cut)
    ours = f"{paths.pods(NAMESPACE)}?labelSelector=holdfast.dev/job={JOB}"
    eventually(lambda: not plane.read(ours)["items"], "the cut node has no pod left")
    eventually(lambda: not status(plane), "its time to live is over")
    plane.kubectl(*HERE, "patch", "pod", f"{JOB}-0-1", "-p", '{"metadata": {"finalizers": null}}')
    audited = [event for event in plane.audit(since_bytes) if who(event) == DRIVER]
    return Left(cut, shown, kept, last, story, entries_in(folder), audited)


PODS = ("get", "pods", "-l", f"holdfast.dev/job={JOB}")


def end_a_pod_that_has_our_name(plane: ControlPlane) -> None:
    """One of somebody else, that is being deleted and held: the driver has to look at it."""
    metadata = {"name": f"{JOB}-0-1", "finalizers": ["tests.holdfast.dev/held"]}
    spec = {"containers": [{"name": "c", "image": "x"}], "schedulingGates": [{"name": "of/tests"}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    plane.kubectl(*HERE, "apply", "-f", "-", input=json.dumps(pod))
    plane.kubectl(*HERE, "delete", "pod", f"{JOB}-0-1", "--wait=false")


def apply(plane: ControlPlane, name: str = JOB, script: str = TRAIN, **more: Any) -> None:
    command = ["python", "-u", "-c", script]
    spec = {"nodes": 2, "ranksPerNode": 1, "command": command, "ttlS": TTL_S}
    secret = {"name": "WORD", "secretName": WORDS, "key": "word"}
    spec["pod"] = {"image": "holdfast-executor:1", "secretEnv": [secret]}
    document = {"apiVersion": "holdfast.dev/v1alpha1", "kind": "TrainingJob"}
    document |= {"metadata": {"name": name}, "spec": spec | more}
    plane.kubectl(*HERE, "apply", "-f", "-", input=json.dumps(document))


def shown_by(plane: ControlPlane) -> list[str]:
    """What `kubectl logs` has of the job's ranks; nothing until it has lines of both."""
    said = plane.kubectl(*HERE, "logs", "-l", f"holdfast.dev/job={JOB}", "--tail=-1").splitlines()
    return said if {"[rank 0] 2", "[rank 1] 2"} <= set(said) else []


def status(plane: ControlPlane, name: str = JOB) -> dict[str, Any]:
    """Of the job; nothing once there is none."""
    found: dict[str, Any] = plane.read(paths.training_jobs(NAMESPACE, name)).get("status", {})
    return found


def evicted(plane: ControlPlane) -> list[str]:
    """For the incident that it is in, or was in last: one that is only said may come after it."""
    incident = status(plane).get("incident") or {}
    return [*incident.get("evicted", ())]


def story_of(plane: ControlPlane) -> str:
    """The events that kubectl tells of the job; "" until its end is among them."""
    events = plane.kubectl(*HERE, "describe", "tj", JOB).partition("\nEvents:")[2]
    return events if " Succeeded " in events else ""


# ---------------------------------------------------------------- reading what is left


def who(event: dict[str, Any]) -> str:
    name: str = event["user"].get("username", "")
    return name


def did(event: dict[str, Any]) -> tuple[str, str, str]:
    """API group, resource/subresource and verb of what was audited."""
    about = event["objectRef"]
    what = "/".join(filter(None, (about["resource"], about.get("subresource"))))
    return about.get("apiGroup", ""), what, event["verb"]


def granted() -> set[tuple[str, str, str]]:
    """As `did`, what the shipped role allows."""
    (role,) = (
        part
        for part in yaml.safe_load_all((BASE / "rbac.yaml").read_text())
        if part["kind"] == "ClusterRole" and part["metadata"]["name"] == ACCOUNT[1]
    )
    return {
        (group, resource, verb)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def call_of(event: dict[str, Any]) -> Call:
    """Of a write: the effect that its User-Agent names."""
    said = ACTING.fullmatch(event["userAgent"])
    assert said, (did(event), event["userAgent"])
    return Call(int(said[1]), int(said[2]), said[3], said[4])


def writes(left: Left, what: str, verb: str) -> list[Call]:
    """Calls behind all writes of this kind that the API server carried out."""
    kept = [each for each in left.audited if did(each)[1:] == (what, verb)]
    return [call_of(each) for each in kept if each["responseStatus"]["code"] < 300]


def ordered(left: Left, kind: type[Allocate | Release | Distrust]) -> list[Call]:
    """Effects of this kind in the journal, as the calls that they are to be."""
    return [
        Call(entry.term, entry.sequence, kind.__name__, effect.node)
        for entry in left.entries
        for effect in entry.effects
        if isinstance(effect, kind)
    ]


def test_a_job_goes_on_though_one_of_its_nodes_is_unplugged(left: Left) -> None:
    assert (left.status["phase"], left.status["restarts"]) == ("Succeeded", 1)
    assert [each.node for each in ordered(left, Distrust)] == [left.cut]


def test_kubectl_logs_has_what_the_ranks_write(left: Left) -> None:
    ours = [line for line in left.shown if line.startswith("[rank 1] ")]
    assert ours[1:4] == [f"[rank 1] {step}" for step in range(3)]


def test_ranks_have_what_a_secret_says_and_nothing_else_of_ours_has_it(
    left: Left, folder: Path
) -> None:
    read = hashlib.sha256(WORD.encode()).hexdigest()
    assert {f"[rank {rank}] {read}" for rank in (0, 1)} <= set(left.shown)
    assert WORD not in f"{left.status} {left.story} {left.entries}"
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert files
    assert not [path for path in files if WORD.encode() in path.read_bytes()]


def test_what_ranks_wrote_last_is_kept_though_their_pods_are_gone(left: Left) -> None:
    assert left.kept.stdout.splitlines()[-2:] == [b"43", b"44"]
    assert left.kept.attempt == 2


def test_the_driver_needs_no_right_but_the_shipped_ones_and_every_one_of_them(left: Left) -> None:
    refused = [
        (did(each), each["requestURI"])
        for each in left.audited
        if each["annotations"]["authorization.k8s.io/decision"] == "forbid"
    ]
    assert refused == []
    used = {did(each) for each in left.audited} - {ASKED_OF_ITSELF}
    assert granted() - used == set(), "granted, and not needed"
    assert used - granted() == set(), "needed, and granted by something else"


def test_each_effect_in_the_journal_is_one_write_and_each_write_is_one_of_them(left: Left) -> None:
    created = Counter(writes(left, "pods", "create"))
    assert set(created.values()) == {1}
    assert created.keys() == set(ordered(left, Allocate))
    deleted = Counter(writes(left, "pods", "delete"))
    assert set(deleted.values()) == {1}
    assert deleted.keys() <= set(ordered(left, Release))
    tainted = writes(left, "nodes", "patch")
    assert tainted == ordered(left, Distrust)
    assert [each.node for each in tainted] == [left.cut]


def test_describe_tells_every_phase_of_the_job_with_its_reason(left: Left) -> None:
    told = re.findall(r"^  (Normal|Warning) +(\w+) ", left.story, re.MULTILINE)
    others = {"NodeLost", Phase.PENDING}  # an incident; and if nodes came late
    phases = [Phase(reason) for _, reason in told if reason not in others]
    assert ("Warning", "NodeLost") in told
    assert phases[:3] == [Phase.ALLOCATING, Phase.STARTING, Phase.RUNNING]
    assert phases[3:][:1] == [Phase.SUSPENDING]
    assert phases[-2:] == [Phase.RUNNING, Phase.SUCCEEDED]
    assert [kind for kind, reason in told if reason == Phase.SUSPENDING] == ["Warning"]
    assert re.search(rf"Warning +Suspending .*{left.cut} is lost", left.story)


GREEDY = """
import os, time
if os.environ["RANK"] == "1":
    taken = [bytearray(16 << 20) for _ in range(100)]
time.sleep(600)
"""


def test_a_rank_that_takes_too_much_memory_dies_of_it_and_not_its_executor(
    plane: ControlPlane, folder: Path, left: Left
) -> None:
    if "no memory cgroups" in plane.kubectl("describe", "node", "node-1"):
        pytest.skip("no memory cgroups here; the node says so")
    resources = {"requests": {"memory": "64Mi"}, "limits": {"memory": "900Mi"}}
    pod = {"image": "holdfast-executor:1", "resources": resources}
    name, once = "greedy", {"user": {"restarts": 0, "windowS": 600}}
    apply(plane, name, GREEDY, nodes=1, ranksPerNode=2, pod=pod, recovery=once)
    end = eventually(lambda: over(plane, name), "it ends")
    assert (end["phase"], end["incident"]["kind"]) == ("Failed", "out-of-memory")
    told = [entry.why for entry in entries_in(folder) if name in entry.jobs]
    assert any(
        "rank 1 on" in why and "the limit of all ranks there is 900 MiB" in why for why in told
    )
    assert left.status["phase"] == "Succeeded", "the path was played before"


def over(plane: ControlPlane, name: str) -> dict[str, Any]:
    found = status(plane, name)
    return found if found.get("phase") in ("Succeeded", "Failed") else {}
