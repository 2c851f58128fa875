"""What the operator makes of objects, without an API server: pods, facts, marks, wishes, status."""

import json
from datetime import UTC, datetime, timedelta
from math import inf
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.driver.adapters.kubernetes import facts, identity, jobs, marks, names, pods, status
from holdfast.driver.core import events as e
from holdfast.driver.core.model import Job, Phase, State, Wanted
from holdfast.protocol import nodeenv
from holdfast.protocol.nodeenv import Drivers

NOW = datetime(2026, 1, 1, tzinfo=UTC)

Object = dict[str, Any]

JOB: Object = {
    "metadata": {"name": "speech", "namespace": "lab", "uid": "uid-1", "generation": 1},
    "spec": {
        "nodes": 2,
        "command": ["python", "train.py"],
        "pod": {"image": "speech:1", "resources": {"limits": {"nvidia.com/gpu": 8}}},
    },
}
NAMES = st.from_regex(r"[a-z]([-a-z0-9]{0,20}[a-z0-9])?", fullmatch=True)


def order(**pod: Any) -> pods.Order:
    job = JOB | {"spec": {**JOB["spec"], "pod": {**JOB["spec"]["pod"], **pod}}}
    return pods.Order(job, "node-7", 3, 2, Drivers(["https://a:1", "https://b:2"], ca="its PEM"))


def node(*conditions: Object, **spec: Any) -> Object:
    ready = {"type": "Ready", "status": "True"}
    return {
        "metadata": {"name": "node-7", "resourceVersion": "5", "labels": {names.RACK: "r2"}},
        "spec": spec,
        "status": {"conditions": [*conditions, ready], "allocatable": {"cpu": "8"}},
    }


# ---------------------------------------------------------------- names


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


# ---------------------------------------------------------------- pods


def test_a_pod_is_its_jobs_and_for_one_node_through_the_scheduler() -> None:
    made = pods.manifest(order())
    assert made["metadata"]["name"] == "speech-3-2"
    assert pods.owner_uid(made) == "uid-1"
    assert pods.node_of(made) == "node-7"
    assert "nodeName" not in made["spec"]
    affinity = made["spec"]["affinity"]["nodeAffinity"]
    terms = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert terms[0]["matchFields"][0]["values"] == ["node-7"]


def test_nobody_deletes_a_pod_behind_our_back_because_its_node_is_silent() -> None:
    tolerated = pods.manifest(order(tolerations=[{"key": "gpu"}]))["spec"]["tolerations"]
    stays = [each for each in tolerated if each.get("effect") == "NoExecute"]
    assert {each["key"].rpartition("/")[2] for each in stays} == {"not-ready", "unreachable"}
    assert all("tolerationSeconds" not in each for each in stays)
    assert {"key": "gpu"} in tolerated


def test_the_processes_of_a_pod_are_told_all_that_they_need() -> None:
    (container,) = pods.manifest(order())["spec"]["containers"]
    told = {each["name"]: each for each in container["env"]}
    assert nodeenv.REQUIRED.keys() <= told.keys()
    assert told[nodeenv.DRIVER_URL]["value"] == "https://a:1,https://b:2"
    assert told[nodeenv.DRIVER_CA]["value"] == "its PEM"
    mounts = {each["mountPath"] for each in container["volumeMounts"]}
    assert told[nodeenv.TOKEN_FILE]["value"].rpartition("/")[0] in mounts


def test_what_a_job_asks_of_its_pods_is_in_them() -> None:
    made = pods.manifest(
        order(
            shm="64Gi",
            rdmaDevices={"rdma/hca": "8"},
            serviceAccountName="trainer",
            priorityClassName="high",
            imagePullSecrets=[{"name": "registry"}],
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
    pod = pods.manifest(order()) | {"status": status}
    if deleted:
        pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert (why in pods.end(pod)) if why else pods.end(pod) == ""


def test_a_pod_that_is_deleted_works_until_its_grace_is_over() -> None:
    pod = pods.manifest(order()) | {"status": {"phase": "Running"}}
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


# ---------------------------------------------------------------- nodes


def test_a_cordon_closes_a_node_and_does_not_lose_it() -> None:
    fact = facts.fact_of(node(unschedulable=True), NOW)
    assert (fact.present, fact.closed, fact.rack) == (True, "it is cordoned", "r2")


def test_a_node_that_has_only_just_come_is_closed_until_its_taint_is_taken_off() -> None:
    taint = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
    fact = facts.fact_of(node(taints=[taint]), NOW)
    assert (fact.present, fact.closed) == (True, f"it has the taint {taint['key']} yet")
    assert facts.fact_of(node(taints=[taint | {"key": "pool"}]), NOW).closed == ""


@pytest.mark.parametrize(
    ("by", "within_s", "said"),
    [
        ("", None, "new kernel"),
        ("2026-01-01T00:05:00Z", 300, "new kernel (by 2026-01-01T00:05:00Z)"),
        ("2025-12-31T23:00:00Z", 0, "new kernel (by 2025-12-31T23:00:00Z)"),
        ("tomorrow", None, "'tomorrow' is no time with its zone"),
        ("2026-01-01T00:05:00", None, "is no time with its zone"),
    ],
)
def test_a_notice_of_maintenance_is_told_with_its_time(
    by: str, within_s: float | None, said: str
) -> None:
    seen = node()
    seen["metadata"]["annotations"] = {names.MAINTENANCE: "new kernel", names.MAINTENANCE_BY: by}
    fact = facts.fact_of(seen, NOW)
    assert (fact.present, fact.within_s) == (True, within_s)
    assert said in fact.notice


def test_a_taint_of_somebody_who_takes_the_node_away_is_a_notice_and_others_are_not() -> None:
    taint = {"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}
    assert facts.fact_of(node(taints=[taint]), NOW).notice == f"it has the taint {taint['key']}"
    assert facts.fact_of(node(taints=[taint | {"key": "pool"}]), NOW).notice == ""


@pytest.mark.parametrize(
    ("kind", "status", "problem", "conclusive"),
    [
        ("KernelDeadlock", "True", "KernelDeadlock is True: task blocked", False),
        ("KernelDeadlock", "False", "", False),
        ("GPUMissing", "True", "GPUMissing is True: task blocked", True),
        ("KernelReady", "False", "KernelReady is False: task blocked", False),
        ("MemoryPressure", "True", "", False),
    ],
)
def test_what_problem_detectors_say_is_passed_on(
    kind: str, status: str, problem: str, conclusive: bool
) -> None:
    seen = node()
    said = {"type": kind, "status": status, "message": "task blocked"}
    seen["status"]["conditions"] = [*seen["status"]["conditions"], said]
    fact = facts.fact_of(seen, NOW)
    assert (fact.problem, fact.conclusive, fact.present) == (problem, conclusive, True)


def test_a_node_that_is_not_ready_is_gone_with_what_was_said_of_it() -> None:
    silent = {"type": "Ready", "status": "Unknown", "message": "Kubelet stopped posting"}
    fact = facts.fact_of(node(silent), NOW)
    assert not fact.present
    assert fact.why == "Ready is Unknown: Kubelet stopped posting"


def test_a_pod_that_no_scheduler_could_place_there_is_known_at_once() -> None:
    wanted = pods.manifest(order(tolerations=[{"key": "pool", "value": "a", "operator": "Equal"}]))
    assert facts.misfit(node(), wanted) == "it has no nvidia.com/gpu"
    able = node(taints=[{"key": "pool", "value": "a", "effect": "NoSchedule"}])
    able["status"]["allocatable"]["nvidia.com/gpu"] = "8"
    assert facts.misfit(able, wanted) == ""
    able["spec"]["taints"][0]["value"] = "b"
    assert facts.misfit(able, wanted) == "its taint pool=b:NoSchedule is not tolerated"


TAINTS = st.lists(
    st.fixed_dictionaries({"key": st.sampled_from(["a", "b/c"]), "effect": st.just("NoExecute")}),
    max_size=3,
)


@given(others=TAINTS, reason=st.text(max_size=30), incident=st.integers(1, 99))
def test_our_marks_come_and_go_and_those_of_others_stay(
    others: list[Object], reason: str, incident: int
) -> None:
    seen = node(taints=others)
    seen["metadata"]["annotations"] = {"of/others": "x"}
    patch = marks.distrust(seen, incident=incident, reason=reason, at="2026-01-01T00:00:00Z")
    assert patch["metadata"]["resourceVersion"] == "5"
    marked = merged(seen, patch)
    assert facts.fact_of(marked, NOW).distrusted
    assert marks.marked(marked, incident=incident)
    back = marks.trust(marked)
    assert back is not None
    clean = merged(marked, back)
    assert (clean["spec"].get("taints") or [], clean["metadata"]["annotations"]) == (
        others,
        {"of/others": "x"},
    )
    assert marks.trust(clean) is None


def merged(target: Object, patch: Object) -> Object:
    """A JSON merge patch, RFC 7396."""
    made = dict(target)
    for key, value in patch.items():
        if value is None:
            made.pop(key, None)
        else:
            made[key] = merged(made.get(key, {}), value) if isinstance(value, dict) else value
    return made


# ---------------------------------------------------------------- jobs


def core_job(**fields: Any) -> Job:
    event = jobs.missing(JOB, None, "speech")
    assert isinstance(event, e.JobSubmitted)
    base = {"phase": Phase.PENDING, "number": 1, "submitted_s": 0.0, "since_s": 0.0}
    return Job(name="speech", plan=event.plan, **(base | fields))


def changed_spec(**spec: Any) -> Object:
    return JOB | {"spec": {**JOB["spec"], **spec}}


def test_a_new_object_is_submitted_under_its_uid() -> None:
    job = core_job()
    assert jobs.uid_of(job) == "uid-1"
    assert json.loads(job.plan.spec)["metadata"]["namespace"] == "lab"


def test_without_a_store_of_its_own_nothing_is_written_to_the_pods_disk_as_if_it_were_one() -> None:
    assert core_job().plan.task.store_interval_steps == 0
    stored = changed_spec(checkpoint={"storeUrl": "file:///bucket"})
    event = jobs.missing(stored, None, "speech")
    assert isinstance(event, e.JobSubmitted)
    assert event.plan.task.store_interval_steps == 50


@pytest.mark.parametrize(
    ("wanted", "job", "request_"),
    [
        (JOB, {}, None),
        (changed_spec(suspend=True), {}, e.SuspendRequested),
        (changed_spec(suspend=True), {"wanted": Wanted.SUSPEND}, None),
        (JOB, {"wanted": Wanted.SUSPEND}, e.ResumeRequested),
        (None, {}, e.DeleteRequested),
        (None, {"wanted": Wanted.DELETE}, None),
        (None, {"wanted": Wanted.DELETE, "phase": Phase.STOPPED}, e.DeleteRequested),
        (changed_spec(suspend=True), {"phase": Phase.SUCCEEDED}, None),
        (
            JOB | {"metadata": {**JOB["metadata"], "uid": "uid-2"}},
            {"phase": Phase.RUNNING},
            e.DeleteRequested,
        ),
        (
            JOB | {"metadata": {**JOB["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}},
            {},
            e.DeleteRequested,
        ),
    ],
)
def test_what_an_object_wants_and_the_core_does_not_have_is_asked_for(
    wanted: Object | None, job: Object, request_: type | None
) -> None:
    asked = jobs.missing(wanted, core_job(**job), "speech")
    assert type(asked) is (request_ or type(None))


def test_a_job_that_was_over_before_is_never_started_again() -> None:
    over = {"conditions": [{"type": "Failed", "status": "True"}]}
    assert jobs.missing(JOB | {"status": over}, None, "speech") is None


def test_an_object_of_which_no_job_can_be_made_is_refused_with_its_field() -> None:
    spec = {key: value for key, value in JOB["spec"].items() if key != "pod"}
    with pytest.raises(jobs.Refused, match=r"spec\.pod"):
        jobs.missing(JOB | {"spec": spec}, None, "speech")


def test_a_changed_spec_is_named_by_its_fields_and_suspend_is_none_of_them() -> None:
    assert jobs.changed(changed_spec(suspend=True), core_job()) == ""
    assert jobs.changed(changed_spec(nodes=3), core_job()).startswith("spec.nodes: changed")


# ---------------------------------------------------------------- status


def told(job: Job, before: Object | None = None, at: str = "now", changed: str = "") -> Object:
    return status.status_of(
        job,
        State(jobs={"speech": job}),
        live=None,
        pods_ready=1,
        hindrance="",
        changed=changed,
        before=before or {},
        generation=4,
        at=at,
    )


def condition(said: Object, kind: str) -> Object:
    return next(each for each in said["conditions"] if each["type"] == kind)


def test_a_condition_keeps_the_time_at_which_it_turned() -> None:
    first = told(core_job(), at="first")
    second = told(core_job(phase=Phase.RUNNING, places=("a", "b")), first, at="second")
    assert condition(second, "Running")["lastTransitionTime"] == "second"
    assert condition(second, "Accepted")["lastTransitionTime"] == "first"
    assert {each["observedGeneration"] for each in second["conditions"]} == {4}


def test_a_changed_spec_is_said_not_to_be_accepted_while_the_job_goes_on() -> None:
    said = told(core_job(phase=Phase.RUNNING), changed="spec.nodes: changed")
    assert condition(said, "Accepted")["status"] == "False"
    assert condition(said, "Accepted")["message"] == "spec.nodes: changed"
    assert condition(said, "Running")["status"] == "True"


@pytest.mark.parametrize("phase", list(Phase))
def test_exactly_what_is_over_is_never_started_again(phase: Phase) -> None:
    said = told(core_job(phase=phase))
    assert status.ended(said) == core_job(phase=phase).finished


def test_only_progress_may_wait_to_be_written() -> None:
    first, further = told(core_job(best_step=1)), told(core_job(best_step=2))
    assert first != further
    assert status.urgent(first) == status.urgent(further)
    assert status.urgent(first) != status.urgent(told(core_job(attempt=1)))


def test_of_pods_that_become_ready_one_by_one_the_last_is_told_at_once() -> None:
    none, some, every = ({"ready": f"{count}/3"} for count in (0, 2, 3))
    assert status.urgent(none) == status.urgent(some)
    assert status.urgent(some) != status.urgent(every)


# ---------------------------------------------------------------- identity


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
    pod = pods.manifest(order())
    pod["spec"]["nodeName"] = "node-7"
    assert identity.unfit(pod, "node-7") == ""
    assert "not on node node-8" in identity.unfit(pod, "node-8")
    assert "none of ours" in identity.unfit(None, "node-7")
    pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert "being deleted" in identity.unfit(pod, "node-7")
