"""What the operator reads off a Node, and the marks that it puts there."""

import pytest
import yaml
from deployed import DEPLOY
from hypothesis import given
from hypothesis import strategies as st
from made_objects import NOW, Object, node, order

from holdfast.driver.adapters.kubernetes import facts, marks, names, podspec
from holdfast.driver.adapters.kubernetes.notes import MAX_NOTE_BYTES
from holdfast.protocol.xids import HARDWARE_FAULT, XID_ERRORS


def test_a_cordon_closes_a_node_and_does_not_lose_it() -> None:
    fact = facts.fact_of(node(unschedulable=True), NOW)
    assert (fact.present, fact.closed, fact.rack) == (True, "it is cordoned", "r2")


@pytest.mark.parametrize("why", ["not-ready", "unreachable", "unschedulable"])
def test_a_node_that_has_only_just_come_is_closed_until_its_taint_is_taken_off(why: str) -> None:
    taint = {"key": f"node.kubernetes.io/{why}", "effect": "NoSchedule"}
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
        (HARDWARE_FAULT, "True", f"{HARDWARE_FAULT} is True: task blocked", True),
        (XID_ERRORS, "True", f"{XID_ERRORS} is True: task blocked", False),
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
    closed = problem.partition(":")[0] if conclusive else ""
    assert fact.closed == closed, "nobody new, as long as that is said"


def test_a_node_that_is_not_ready_is_gone_with_what_was_said_of_it() -> None:
    silent = {"type": "Ready", "status": "Unknown", "message": "Kubelet stopped posting"}
    fact = facts.fact_of(node(silent), NOW)
    assert not fact.present
    assert fact.why == "Ready is Unknown: Kubelet stopped posting"


def test_a_pod_that_no_scheduler_could_place_there_is_known_at_once() -> None:
    wanted = podspec.manifest(
        order(tolerations=[{"key": "pool", "value": "a", "operator": "Equal"}])
    )
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


@pytest.mark.parametrize(
    ("there", "says"),
    [
        ({}, True),
        ({"lastTransitionTime": "2025-01-01T00:00:00Z"}, True),
        ({"status": "False"}, False),
        ({"message": "it is slow"}, False),
        ({"type": "Ready"}, False),
    ],
)
def test_a_condition_is_there_whenever_it_turned(there: Object, says: bool) -> None:
    wanted = marks.condition(distrusted=True, why="it lies", at="2026-01-01T00:00:00Z")
    seen = node()
    assert not marks.says(seen, wanted)
    (said,) = wanted["status"]["conditions"]
    seen["status"]["conditions"] = [*seen["status"]["conditions"], said | there]
    assert marks.says(seen, wanted) == says


def merged(target: Object, patch: Object) -> Object:
    """A JSON merge patch, RFC 7396."""
    made = dict(target)
    for key, value in patch.items():
        if value is None:
            made.pop(key, None)
        else:
            made[key] = merged(made.get(key, {}), value) if isinstance(value, dict) else value
    return made


def test_a_taint_that_somebody_took_off_is_told_of_as_it_comes_back() -> None:
    marked = node(taints=[{"key": names.TAINT, "value": "incident-7", "effect": "NoSchedule"}])
    marked["metadata"]["annotations"] = {names.INCIDENT: "7", names.WHY: "it lies"}
    assert not marks.taken_off(marked)
    assert not marks.taken_off(node()), "made anew under its name, it has nothing of ours"
    bare = {**marked, "spec": {}}
    assert marks.taken_off(bare)
    event = marks.came_back(bare, reason="it lies", at="2026-01-01T00:00:00.000000Z", name="n.1")
    assert event["regarding"]["kind"] == "Node"
    assert "holdfast nodes restore node-7 --reason" in event["note"]
    assert "it lies" in event["note"]


@given(reason=st.text(max_size=3 * MAX_NOTE_BYTES))
def test_what_to_type_is_never_cut_off_and_no_note_is_too_long(reason: str) -> None:
    event = marks.came_back(node(), reason=reason, at="2026-01-01T00:00:00.000000Z", name="n.1")
    assert "holdfast nodes restore node-7 --reason WHY." in event["note"]
    assert len(event["note"].encode()) <= MAX_NOTE_BYTES


def test_the_drivers_own_pods_may_run_where_nothing_is_to_be_trained() -> None:
    """Else a second driver finds no node while one is distrusted and another is drained."""
    whole = [*yaml.safe_load_all((DEPLOY / "base" / "driver.yaml").read_text())]
    (pod,) = [each["spec"]["template"] for each in whole if each["kind"] == "Deployment"]
    bad = node(taints=[TAINTED])
    bad["status"]["allocatable"] = {"cpu": "8", "memory": "8Gi"}
    assert facts.misfit(bad, pod) == ""
    assert "its taint" in facts.misfit(bad, podspec.manifest(order()))


TAINTED = {"key": names.TAINT, "value": "incident-7", "effect": "NoSchedule"}
