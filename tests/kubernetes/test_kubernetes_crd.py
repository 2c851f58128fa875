"""TrainingJob as a resource: the API server itself takes what is right and says what is wrong.

All of it with stock kubectl, as a platform engineer has it.
"""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from holdfast.driver.adapters.kubernetes import crd as generator
from holdfast.lab.kubernetes.kubectl import KubectlFailed
from holdfast.lab.kubernetes.plane import ControlPlane
from holdfast.protocol import podspec
from holdfast.protocol.jobcheck import check
from holdfast.protocol.mistakes import BadDocument

pytestmark = pytest.mark.kubernetes

BASE = Path(__file__).parents[2] / "deploy" / "kubernetes" / "base"
NAMESPACE = "of-specs"
GOOD: dict[str, Any] = {
    "apiVersion": "holdfast.dev/v1alpha1",
    "kind": "TrainingJob",
    "metadata": {"name": "speech"},
    "spec": {
        "nodes": 4,
        "ranksPerNode": 2,
        "command": ["python", "train.py"],
        "topology": {"tp": 2, "pp": 2},
        "pod": {"image": "speech:1", "resources": {"limits": {"nvidia.com/gpu": 8}}},
    },
}


@pytest.fixture(scope="module")
def cluster(crd: ControlPlane) -> ControlPlane:
    crd.kubectl("create", "namespace", NAMESPACE)
    return crd


NO_QUANTITY = f"{podspec.NO_QUANTITY}  Write a number and, where it needs one, a unit of Kubernetes"
PASSWORD = {"name": "REDISCLI_AUTH", "secretName": "redis", "key": "password"}
EMPTY = {"name": "data", "mountPath": "/data", "emptyDir": {}}


def job(*, name: str = "speech", **spec: Any) -> dict[str, Any]:
    document = copy.deepcopy(GOOD)
    document["metadata"]["name"] = name
    document["spec"].update(spec)
    return document


def applied(cluster: ControlPlane, document: dict[str, Any], *more: str) -> str:
    words = ("-n", NAMESPACE, "apply", *more, "-f", "-")
    return cluster.kubectl(*words, input=json.dumps(document))


def refusal(cluster: ControlPlane, document: dict[str, Any]) -> str:
    with pytest.raises(KubectlFailed) as refused:
        applied(cluster, document, "--dry-run=server")
    return str(refused.value)


def test_the_definition_in_the_repository_is_the_one_that_the_spec_gives() -> None:
    assert (BASE / "crd.yaml").read_text() == generator.text(), "make crd"


def test_a_job_is_taken_with_every_default_of_the_spec(cluster: ControlPlane) -> None:
    applied(cluster, job(name="whole"))
    read = cluster.kubectl("-n", NAMESPACE, "get", "tj", "whole", "-o", "json")
    spec = json.loads(read)["spec"]
    ours = check(job()).model_dump(mode="json", by_alias=True, exclude_none=True)["spec"]
    assert check(job(**spec)) == check(job())
    assert set(spec) == set(ours)


@pytest.mark.parametrize(
    "topology",
    [
        {"tp": 2, "pp": 2, "dp": 3},
        {"tp": 3, "pp": 2},
        {"tp": 3, "pp": 1},
        {"tp": 1, "pp": 1, "dp": 3},
        {"tp": 1, "pp": 3, "dp": 3},
    ],
)
def test_sizes_that_do_not_multiply_are_refused_in_the_same_words_as_everywhere(
    cluster: ControlPlane, topology: dict[str, int]
) -> None:
    document = job(topology=topology)
    with pytest.raises(BadDocument) as ours:
        check(document)
    (mistake,) = ours.value.mistakes
    said = refusal(cluster, document)
    assert f"spec.topology: Invalid value: {mistake.why}  {mistake.fix}" in said


@pytest.mark.parametrize(
    ("document", "said"),
    [
        (job(nodes=0), "spec.nodes: Invalid value: 0: "),
        (job(nodes="4"), 'spec.nodes in body must be of type integer: "string"'),
        (job(command=[]), "spec.command"),
        (job(pod=None), "spec.pod: Required value"),
        (job(topology={"order": ["tp", "tp", "dp"]}), "the order does not have each axis once."),
        (job(env={"RANK": "1", "A": "2"}), '["RANK"]: set by Holdfast for each rank.'),
        (
            job(timeouts={"stuckMaxS": 700}),
            "spec.timeouts.stuckMaxS: Invalid value: 700 is longer than pauseMaxS 600: a rank",
        ),
        (job(nodez=1), 'unknown field "spec.nodez"'),
        (job(name="1st"), "name 1st is not valid for a job.  Begin with a letter"),
        (job(name="a" * 64), "is not valid for a job."),
        (
            job(pod={"image": "a", "volumes": [{"name": "data", "mountPath": "/data"}]}),
            "spec.pod.volumes[0]: Invalid value: a volume has exactly one source.  Give one of",
        ),
        (
            job(pod={"image": "a", "volumes": [EMPTY, EMPTY]}),
            "spec.pod.volumes: Invalid value: two volumes have the same name.",
        ),
        (
            job(pod={"image": "a", "volumes": [EMPTY | {"name": "shm"}]}),
            "the volumes scratch, memory, identity, shm are Holdfast's own.",
        ),
        (
            job(pod={"image": "a", "secretEnv": [PASSWORD, PASSWORD]}),
            "spec.pod.secretEnv: Invalid value: two variables have the same name.",
        ),
        (
            job(pod={"image": "a", "secretEnv": [PASSWORD | {"name": "HOLDFAST_X"}]}),
            'Invalid value: "HOLDFAST_X": Holdfast sets this variable itself.',
        ),
        (
            job(pod={"image": "a", "tolerations": [{"operator": "Exists", "value": "a"}]}),
            f"spec.pod.tolerations[0]: Invalid value: {podspec.EXISTS_VALUE}",
        ),
        (
            job(pod={"image": "a", "shm": "64 GB"}),
            f'spec.pod.shm: Invalid value: "64 GB": {NO_QUANTITY}',
        ),
        (
            job(pod={"image": "a", "resources": {"limits": {"memory": "64GB"}}}),
            f'spec.pod.resources.limits[memory]: Invalid value: "64GB": {NO_QUANTITY}',
        ),
        (
            job(pod={"image": "a", "resources": {"limits": {"nvidia.com/gpu": -1}}}),
            f"spec.pod.resources.limits[nvidia.com/gpu]: Invalid value: -1: {NO_QUANTITY}",
        ),
        (
            job(pod={"image": "a", "resources": {"limits": {"gpu": 8}}}),
            f"spec.pod.resources.limits: Invalid value: {podspec.NO_RESOURCE}  Write a device with "
            "its domain: nvidia.com/gpu.",
        ),
        (
            job(checkpoint={"storeUrl": "/data/checkpoints"}),
            'spec.checkpoint.storeUrl: Invalid value: "/data/checkpoints": this is no store that '
            "this Holdfast knows.  Use file:///an/absolute/folder",
        ),
        (
            job(communication={"rendezvous": "http://h"}),
            'spec.communication.rendezvous: Invalid value: "http://h": this is no Redis where '
            "ranks could meet.  Use redis://host:6379/0",
        ),
        (
            job(communication={"interfaces": ["eth0", "=ib0"]}),
            "this is no name of a network interface.  Name each wholly, e.g. [eth0, eth1]",
        ),
        (job(env=[{"name": "A", "value": "b"}]), 'unknown field "spec.env[0].name"'),
        (job(env={"LR": 0.1}), 'spec.env.LR in body must be of type string: "number"'),
        (job(command="python train.py"), "spec.command in body must be of type array"),
        (job(ttlS="1h"), 'spec.ttlS in body must be of type number: "string"'),
        (
            job(pod={"image": "a", "tolerations": [{"effect": "NoSchedule"}]}),
            "an empty key means every taint, whatever its value.",
        ),
    ],
)
def test_what_is_wrong_is_refused_by_the_api_server_itself(
    cluster: ControlPlane, document: dict[str, Any], said: str
) -> None:
    assert said in refusal(cluster, document)


@pytest.mark.parametrize(
    "wrong",
    [{"nodes": 0}, {"ranksPerNode": 0}, {"topology": {"tp": 0}}, {"topology": {"pp": 0, "dp": 2}}],
)
def test_nothing_follows_from_a_size_that_is_out_of_bounds(
    cluster: ControlPlane, wrong: dict[str, Any]
) -> None:
    said = refusal(cluster, job(**wrong))
    assert said.count("Invalid value") == 1
    assert "greater than or equal to 1" in said


def test_another_version_is_refused_by_its_name(cluster: ControlPlane) -> None:
    said = refusal(cluster, job() | {"apiVersion": "holdfast.dev/v1"})
    assert 'no matches for kind "TrainingJob" in version "holdfast.dev/v1"' in said


def test_how_a_job_is_laid_out_cannot_change_and_what_it_runs_can(
    cluster: ControlPlane,
) -> None:
    applied(cluster, job(name="fixed", deadlineS=60))
    applied(cluster, job(name="fixed", deadlineS=60, suspend=True))
    changes: list[dict[str, Any]] = [
        {"nodes": 8},
        {"standbys": 1},
        {"deadlineS": 61},
        {"pod": {"image": "speech:2"}},
    ]
    for change in changes:
        (field,) = change
        said = refusal(cluster, job(**{"name": "fixed", "deadlineS": 60, **change}))
        assert f"{field} cannot change once the job is made.  Delete the job and create it" in said
    for inner in ("storeUrl", "beginFrom"):
        moved = {"checkpoint": {inner: "file:///elsewhere"}}
        said = refusal(cluster, job(name="fixed", deadlineS=60, **moved))
        assert f"{inner} cannot change once the job is made." in said
    patch = '[{"op": "remove", "path": "/spec/deadlineS"}]'
    with pytest.raises(KubectlFailed, match="deadlineS cannot change"):
        cluster.kubectl("-n", NAMESPACE, "patch", "tj", "fixed", "--type=json", "-p", patch)
    other: dict[str, Any] = {"command": ["sh"], "env": {"A": "1"}, "ttlS": 1}
    other |= {"workdir": "/data", "checkpoint": {"retention": 3}}
    applied(cluster, job(name="fixed", deadlineS=60, **other))


def test_the_status_is_written_apart_and_shown_in_columns(cluster: ControlPlane) -> None:
    applied(cluster, job(name="shown"))
    status = {
        "phase": "Running",
        "ready": "4/5",
        "step": 1200,
        "restarts": 2,
        "lastRecoverySeconds": "3.49",
        "conditions": [
            {
                "type": "Running",
                "status": "True",
                "reason": "Running",
                "message": "every rank runs",
                "observedGeneration": 1,
                "lastTransitionTime": "2026-01-02T03:04:05Z",
            }
        ],
    }
    patch = json.dumps({"status": status, "spec": {"suspend": True}})
    here = ("-n", NAMESPACE)
    how = ("--subresource=status", "--type=merge", "-p", patch)
    cluster.kubectl(*here, "patch", "tj", "shown", *how)
    head, row = cluster.kubectl(*here, "get", "trainingjobs", "shown").splitlines()
    assert head.split() == "NAME STATE READY STEP RESTARTS LAST RECOVERY (S) AGE".split()
    assert row.split()[:6] == "shown Running 4/5 1200 2 3.49".split()
    assert cluster.kubectl(*here, "wait", "tj/shown", "--for=condition=Running")
    suspended = "jsonpath={.spec.suspend}"
    assert cluster.kubectl(*here, "get", "tj", "shown", "-o", suspended) == "false"
    assert "trainingjob.holdfast.dev/shown" in cluster.kubectl(*here, "get", "all", "-o", "name")


def test_every_field_explains_itself(cluster: ControlPlane) -> None:
    (version,) = yaml.safe_load((BASE / "crd.yaml").read_text())["spec"]["versions"]

    def unexplained(schema: dict[str, Any], place: str) -> list[str]:
        found = []
        for name, field in schema.get("properties", {}).items():
            inner = field.get("items", field)
            here = f"{place}.{name}"
            found += [] if field.get("description", "").endswith(".") else [here]
            found += unexplained(inner, here)
        return found

    properties = version["schema"]["openAPIV3Schema"]["properties"]
    assert unexplained(properties["spec"], "spec") == []
    assert unexplained(properties["status"], "status") == []
    said = cluster.kubectl("explain", "tj.spec.timeouts.hangFloorS")
    assert "Shortest standstill that counts, in seconds" in said
