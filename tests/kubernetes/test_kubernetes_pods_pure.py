"""What the operator makes of a job: names, pods, and who a pod is."""

from datetime import timedelta
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_objects import NOW, Object, order

from holdfast.driver.adapters.kubernetes import identity, names, pods, podspec
from holdfast.protocol import nodeenv

NAMES = st.from_regex(r"[a-z]([-a-z0-9]{0,20}[a-z0-9])?", fullmatch=True)


@given(name=NAMES, namespace=NAMES)
def test_a_core_job_leads_back_to_its_object_in_one_namespace_and_in_all(
    name: str, namespace: str
) -> None:
    one, every = names.Jobs(namespace), names.Jobs()
    of = names.Object(namespace, name)
    assert one.object(one.job(of)) == of == every.object(every.job(of))
    assert one.job(of) == name


@given(pairs=st.lists(st.tuples(NAMES, st.integers(0, 50), st.integers(1, 9)), unique=True))
def test_no_two_pods_have_a_name_in_common(pairs: list[tuple[str, int, int]]) -> None:
    made = {names.pod_name(*each) for each in pairs}
    assert len(made) == len(pairs)


def test_a_pod_is_its_jobs_and_for_one_node_through_the_scheduler() -> None:
    made = podspec.manifest(order())
    assert made["metadata"]["name"] == "speech-3-2"
    assert pods.owner_uid(made) == "uid-1"
    assert pods.node_of(made) == "node-7"
    assert "nodeName" not in made["spec"]
    affinity = made["spec"]["affinity"]["nodeAffinity"]
    terms = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert terms[0]["matchFields"][0]["values"] == ["node-7"]


def test_nobody_deletes_a_pod_behind_our_back_because_its_node_is_silent() -> None:
    tolerated = podspec.manifest(order(tolerations=[{"key": "gpu"}]))["spec"]["tolerations"]
    stays = [each for each in tolerated if each.get("effect") == "NoExecute"]
    assert {each["key"].rpartition("/")[2] for each in stays} == {"not-ready", "unreachable"}
    assert all("tolerationSeconds" not in each for each in stays)
    assert {"key": "gpu"} in tolerated


def test_the_processes_of_a_pod_are_told_all_that_they_need() -> None:
    (container,) = podspec.manifest(order())["spec"]["containers"]
    told = {each["name"]: each for each in container["env"]}
    assert nodeenv.REQUIRED.keys() <= told.keys()
    assert told[nodeenv.DRIVER_URL]["value"] == "https://a:1,https://b:2"
    assert told[nodeenv.DRIVER_CA]["value"] == "its PEM"
    mounts = {each["mountPath"] for each in container["volumeMounts"]}
    assert told[nodeenv.TOKEN_FILE]["value"].rpartition("/")[0] in mounts


def test_a_pod_is_told_where_its_spans_go_and_no_job_waits_for_the_password() -> None:
    own = {"name": "traces", "mountPath": "/traces", "emptyDir": {}}
    made = order(volumes=[own])
    drivers = made.drivers._replace(traces="redis://r:6379", traces_secret="spans")
    spec = podspec.spec_of(made._replace(drivers=drivers))
    (container,) = spec["containers"]
    told = {each["name"]: each.get("value") for each in container["env"]}
    assert told[nodeenv.TRACES] == "redis://r:6379"
    folder = told[nodeenv.TRACES_PASSWORD_FILE].removesuffix("/password")
    (mount,) = (each for each in container["volumeMounts"] if each["mountPath"] == folder)
    assert mount["readOnly"]
    (volume,) = (each["secret"] for each in spec["volumes"] if each["name"] == mount["name"])
    assert len({each["name"] for each in spec["volumes"]}) == len(spec["volumes"])
    assert (volume["secretName"], volume["optional"]) == ("spans", True)
    plain = {each["name"] for each in podspec.spec_of(made)["containers"][0]["env"]}
    assert not plain & {nodeenv.TRACES, nodeenv.TRACES_PASSWORD_FILE}


def test_what_a_job_asks_of_its_pods_is_in_them() -> None:
    made = podspec.manifest(
        order(
            shm="64Gi",
            rdmaDevices={"rdma/hca": "8"},
            serviceAccountName="trainer",
            priorityClassName="high",
            imagePullSecrets=[{"name": "registry"}],
            secretEnv=[{"name": "REDISCLI_AUTH", "secretName": "redis", "key": "password"}],
            volumes=[{"name": "d", "mountPath": "/d", "persistentVolumeClaim": {"claimName": "c"}}],
        )
    )["spec"]
    (container,) = made["containers"]
    assert container["resources"]["limits"] == {"nvidia.com/gpu": 8, "rdma/hca": "8"}
    assert container["securityContext"]["capabilities"] == {"add": ["IPC_LOCK"]}
    assert {"name": "shm", "mountPath": "/dev/shm"} in container["volumeMounts"]
    assert {"name": "d", "mountPath": "/d"} in container["volumeMounts"]
    assert {"name": "d", "persistentVolumeClaim": {"claimName": "c"}} in made["volumes"]
    assert (made["serviceAccountName"], made["priorityClassName"]) == ("trainer", "high")
    assert made["imagePullSecrets"] == [{"name": "registry"}]
    secret = {"secretKeyRef": {"name": "redis", "key": "password"}}
    assert {"name": "REDISCLI_AUTH", "valueFrom": secret} in container["env"]


@pytest.mark.parametrize(
    ("status", "deleted", "why"),
    [
        ({"phase": "Running"}, False, ""),
        ({"phase": "Failed", "reason": "Evicted", "message": "disk"}, False, "Evicted: disk"),
        ({"phase": "Running"}, True, "is deleted"),
        (
            {
                "phase": "Running",
                "conditions": [
                    {"type": "DisruptionTarget", "status": "True", "message": "a taint"}
                ],
            },
            False,
            "evicted: a taint",
        ),
    ],
)
def test_the_end_of_a_pod_is_seen_with_its_reason(status: Object, deleted: bool, why: str) -> None:
    pod = podspec.manifest(order()) | {"status": status}
    if deleted:
        pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert (why in pods.end(pod)) if why else pods.end(pod) == ""


def test_a_pod_that_is_deleted_works_until_its_grace_is_over() -> None:
    pod = podspec.manifest(order()) | {"status": {"phase": "Running"}}
    assert pods.works_for_s(pod, NOW) == inf
    pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:01:00Z"
    assert pods.works_for_s(pod, NOW) == 60
    assert pods.works_for_s(pod, NOW + timedelta(minutes=2)) == 0
    assert pods.works_for_s(pod | {"status": {"phase": "Pending"}}, NOW) == 0


def test_what_keeps_a_pod_from_running_is_said_in_the_words_of_the_cluster() -> None:
    waiting = {"reason": "ImagePullBackOff", "message": "no such image"}
    pod = {"status": {"containerStatuses": [{"state": {"waiting": waiting}}]}}
    assert pods.hindrance(pod) == "ImagePullBackOff: no such image"
    condition = {"type": "PodScheduled", "status": "False", "message": "0/3 nodes are available"}
    assert pods.hindrance({"status": {"conditions": [condition]}}) == "0/3 nodes are available"
    starting = {"state": {"waiting": {"reason": "ContainerCreating"}}}
    assert pods.hindrance({"status": {"containerStatuses": [starting]}}) == ""


def reviewed(uid: str = "uid-7", audience: str = names.AUDIENCE) -> Object:
    user = {"extra": {identity.POD_UID: [uid]} if uid else {}}
    return {"status": {"authenticated": True, "audiences": [audience], "user": user}}


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (reviewed(), ""),
        (reviewed(audience="https://kubernetes.default.svc"), "another audience"),
        (reviewed(uid=""), "not bound to a pod"),
        ({"status": {"error": "expired"}}, "not good: expired"),
    ],
)
def test_only_a_token_for_us_that_is_bound_to_a_pod_says_who(answer: Object, why: str) -> None:
    uid, said = identity.reviewed(answer)
    assert (uid == "uid-7", why in said if why else said == "") == (not why, True)


def test_a_pod_connects_as_the_node_that_it_runs_on_and_as_no_other() -> None:
    pod = podspec.manifest(order())
    pod["spec"]["nodeName"] = "node-7"
    assert identity.unfit(pod, "node-7") == ""
    assert "not on node node-8" in identity.unfit(pod, "node-8")
    assert "none of ours" in identity.unfit(None, "node-7")
