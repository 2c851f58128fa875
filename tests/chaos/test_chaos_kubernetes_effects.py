"""Each effect of the journal once: held against the audit log, and against what was forked."""

from typing import Any

import pytest
from made_seen import (
    ALLOCATE,
    CREATED,
    ONE_POD,
    STARTED,
    asked,
    entry,
    seen,
)

from holdfast.driver.core.effects import (
    AnyEffect,
    Distrust,
    HoldForExam,
    Instruct,
    Release,
    Trust,
)
from holdfast.driver.core.events import (
    AllocationFailed,
    AnyEvent,
    ClusterCallFailed,
    DriverStarted,
    NodeAllocated,
    NodeDistrusted,
    NodeReleased,
    NodeTrusted,
)
from holdfast.driver.ports import Entry
from holdfast.lab.chaos.kubernetes import witnesses
from holdfast.lab.chaos.kubernetes.intentions import Intention, intentions
from holdfast.protocol.forks import Fork
from holdfast.protocol.messages import Desired


def wrote_object(
    what: str, said: str, uid: str = "a", version: int = 1, **spec: Any
) -> dict[str, Any]:
    """As `asked`, with the object as it came back."""
    metadata = {"uid": uid, "resourceVersion": str(version)}
    event = asked(what, said, responseObject={"metadata": metadata, "spec": spec})
    return event | {"objectRef": event["objectRef"] | {"name": f"pod-{uid}"}}


def order(event: AnyEvent, ordered: AnyEffect) -> list[Entry]:
    """An effect that was ordered by entry 1 and ended as this event."""
    return [entry(1, STARTED, ordered), entry(2, event)]


RELEASE = Release(node="node-1")
RELEASED = NodeReleased(node="node-1", cause=1)
DISTRUST = Distrust(node="node-1", incident=1, reason="bad")
TRUST = Trust(node="node-1")
ON_TRIAL = HoldForExam(job="j", node="node-1", number=7)


def test_an_effect_is_all_orders_of_it_until_it_has_come_about() -> None:
    """The driver dies before it hears of the end; the next orders the same again."""
    entries = [
        entry(1, STARTED, ALLOCATE),
        entry(2, DriverStarted(term=2), ALLOCATE, term=2),
        entry(3, NodeAllocated(job="j", node="node-1", cause=2), term=2),
        entry(4, NodeReleased(node="node-1", cause=3), ALLOCATE, term=2),
        entry(5, AllocationFailed(job="j", node="node-1", why="full", cause=4), term=2),
        entry(6, STARTED, ALLOCATE, term=2),
    ]
    assert intentions(entries, settled=6) == [
        Intention("Allocate", "node-1", frozenset({1, 2}), came_about=True),
        Intention("Allocate", "node-1", frozenset({4}), came_about=False),
        Intention("Allocate", "node-1", frozenset({6}), came_about=False),
    ]


def test_an_allocation_whose_node_is_given_back_before_is_over_and_the_next_is_another() -> None:
    """Of a start that others could not take part in."""
    entries = [
        entry(1, STARTED, ALLOCATE),
        entry(2, STARTED, RELEASE),
        entry(3, NodeReleased(node="node-1", cause=2)),
        entry(4, STARTED, ALLOCATE),
        entry(5, NodeAllocated(job="j", node="node-1", cause=4)),
    ]
    allocations = [each for each in intentions(entries, settled=5) if each.doing == "Allocate"]
    assert allocations == [
        Intention("Allocate", "node-1", frozenset({1}), came_about=False),
        Intention("Allocate", "node-1", frozenset({4}), came_about=True),
    ]


def test_a_trial_that_is_asked_for_again_is_the_same_one() -> None:
    tried = NodeAllocated(job="j", node="node-1", cause=1)
    entries = [*order(tried, ON_TRIAL), entry(3, DriverStarted(term=2), ON_TRIAL, term=2)]
    assert intentions(entries, settled=3) == [
        Intention("HoldForExam", "node-1", frozenset({1, 3}), came_about=True)
    ]


def test_one_pod_for_one_allocation_is_as_it_has_to_be() -> None:
    assert witnesses.each_call_once(seen(CREATED, entries=ONE_POD)) == []


@pytest.mark.parametrize(
    ("audited", "wrong"),
    [
        pytest.param(
            [CREATED, CREATED],
            "Allocate node-1 (entry 1): create pods node-1 was done 2 times",
            id="twice",
        ),
        pytest.param([], "Allocate node-1 (entry 1): create pods was done 0 times", id="never"),
        pytest.param(
            [CREATED, asked("create pods", "term=1 entry=9 Allocate node-1")],
            "create pods node-1: no entry of the journal orders it",
            id="of no entry",
        ),
        pytest.param(
            [CREATED, asked("create pods", "term=2 entry=1 Allocate node-1")],
            "create pods node-1: no entry of the journal orders it",
            id="of another term",
        ),
        pytest.param(
            [CREATED, asked("create pods")],
            "create pods node-1: no entry of the journal orders it",
            id="unnamed",
        ),
        pytest.param(
            [CREATED, asked("create pods", "term=1 entry=1 Allocate node-2")],
            "create pods node-1: no entry of the journal orders it",
            id="for another node",
        ),
        pytest.param(
            [CREATED, asked("patch nodes", "term=1 entry=1 Allocate node-1")],
            "patch nodes node-1: no entry of the journal orders it",
            id="what the effect does not ask for",
        ),
    ],
)
def test_a_pod_too_many_or_too_few_is_wrong(audited: list[dict[str, Any]], wrong: str) -> None:
    assert witnesses.each_call_once(seen(*audited, entries=ONE_POD)) == [wrong]


def test_what_the_api_server_did_not_do_or_another_did_does_not_count() -> None:
    refused = CREATED | {"responseStatus": {"code": 409}}
    another = CREATED | {"user": {"username": "somebody"}}
    assert witnesses.each_call_once(seen(CREATED, refused, another, entries=ONE_POD)) == []


def test_what_a_driver_orders_again_it_does_under_its_own_term() -> None:
    again = [entry(2, DriverStarted(term=2), ALLOCATE, term=2)]
    entries = [ONE_POD[0], *again, entry(3, NodeAllocated(job="j", node="node-1", cause=2), term=2)]
    late = asked("create pods", "term=1 entry=2 Allocate node-1")
    ours = asked("create pods", "term=2 entry=2 Allocate node-1")
    assert witnesses.each_call_once(seen(ours, entries=entries)) == []
    assert "create pods node-1: no entry of the journal orders it" in witnesses.each_call_once(
        seen(late, entries=entries)
    )


def test_an_allocation_that_was_never_confirmed_need_not_have_a_pod() -> None:
    assert witnesses.each_call_once(seen(entries=ONE_POD[:1])) == []
    assert witnesses.each_call_once(seen(CREATED, entries=ONE_POD[:1])) == []
    assert witnesses.each_call_once(seen(entries=ONE_POD, settled=1)) == [], "nor one that is new"


@pytest.mark.parametrize(
    ("ended", "what", "said"),
    [
        (order(RELEASED, RELEASE), "delete pods", "Release node-1"),
        (order(NodeDistrusted(node="node-1", cause=1), DISTRUST), "patch nodes", "Distrust node-1"),
        (order(NodeTrusted(node="node-1", cause=1), TRUST), "patch nodes", "Trust node-1"),
    ],
)
def test_an_effect_writes_an_object_once_and_what_comes_back_as_it_was_is_no_write(
    ended: list[Entry], what: str, said: str
) -> None:
    once = wrote_object(what, f"term=1 entry=1 {said}")
    again = wrote_object(what, f"term=1 entry=1 {said}", version=2)
    another = wrote_object(what, f"term=1 entry=1 {said}", uid="b")
    assert witnesses.each_call_once(seen(once, once, another, entries=ended)) == []
    assert witnesses.each_call_once(seen(once, again, another, entries=ended)) == [
        f"{said} (entry 1): {what} pod-a was done 2 times"
    ]


def test_a_deletion_whose_answer_was_lost_is_asked_for_again() -> None:
    """By force, for its node had gone by then: that is another write."""
    failed = ClusterCallFailed(call="release", node="node-1", why="no answer", cause=1)
    entries = [
        entry(1, STARTED, RELEASE),
        entry(2, failed),
        entry(3, STARTED, RELEASE),
        entry(4, NodeReleased(node="node-1", cause=3)),
    ]
    lost = wrote_object("delete pods", "term=1 entry=1 Release node-1")
    again = wrote_object("delete pods", "term=1 entry=3 Release node-1", version=2)
    once_more = wrote_object("delete pods", "term=1 entry=3 Release node-1", version=3)
    assert witnesses.each_call_once(seen(lost, again, entries=entries)) == []
    said = "Release node-1 (entry 1, 3): delete pods pod-a was done 2 times"
    assert witnesses.each_call_once(seen(lost, again, once_more, entries=entries)) == [said]
    answered = [entries[0], *entries[2:]]
    assert witnesses.each_call_once(seen(lost, again, entries=answered)) == [said]


def test_a_version_that_another_made_is_no_write_of_the_driver() -> None:
    once = wrote_object("delete pods", "term=1 entry=1 Release node-1")
    kubelets = wrote_object("patch pods/status", "", version=2) | {"user": {"username": "node-1"}}
    again = wrote_object("delete pods", "term=1 entry=1 Release node-1", version=2)
    entries = order(RELEASED, RELEASE)
    assert witnesses.each_call_once(seen(once, kubelets, again, entries=entries)) == []


@pytest.mark.parametrize(
    ("ended", "wrong"),
    [
        (
            order(NodeDistrusted(node="node-1", cause=1), DISTRUST),
            "Distrust node-1 (entry 1): patch nodes was done 0 times",
        ),
        (
            order(NodeTrusted(node="node-1", cause=1), TRUST),
            "Trust node-1 (entry 1): patch nodes was done 0 times",
        ),
        (
            order(NodeAllocated(job="j", node="node-1", cause=1), ON_TRIAL),
            "HoldForExam node-1 (entry 1): create pods was done 0 times",
        ),
    ],
)
def test_an_effect_that_came_about_was_written(ended: list[Entry], wrong: str) -> None:
    assert witnesses.each_call_once(seen(entries=ended)) == [wrong]


GATED = {"schedulingGates": [{"name": "holdfast.dev/gang"}]}


def test_a_gate_is_taken_off_once_and_not_forgotten() -> None:
    held = wrote_object("create pods", "term=1 entry=1 Allocate node-1", **GATED)
    opened = wrote_object("patch pods", "term=1 entry=1 Allocate node-1", version=2)
    again = wrote_object("patch pods", "term=1 entry=1 Allocate node-1", version=3)
    said = "Allocate node-1 (entry 1)"
    assert witnesses.each_call_once(seen(held, opened, entries=ONE_POD)) == []
    assert witnesses.each_call_once(seen(held, entries=ONE_POD)) == [
        f"{said}: the gate of pod-a was never taken off"
    ]
    assert witnesses.each_call_once(seen(held, opened, again, entries=ONE_POD)) == [
        f"{said}: patch pods pod-a was done 2 times"
    ]


def test_what_was_made_for_a_node_that_is_given_back_has_to_go() -> None:
    made = wrote_object("create pods", "term=1 entry=1 Allocate node-1")
    released = NodeReleased(node="node-1", cause=3)
    entries = [*ONE_POD, entry(3, STARTED, RELEASE), entry(4, released)]
    pod = {"metadata": {"name": "pod-a", "uid": "a"}}
    going = {"metadata": {**pod["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}
    assert witnesses.each_call_once(seen(made, entries=entries)) == [], "it is gone"
    assert witnesses.each_call_once(seen(made, entries=entries, pods=[going])) == []
    assert witnesses.each_call_once(seen(made, entries=entries[:3], pods=[pod])) == []
    assert witnesses.each_call_once(seen(made, entries=entries, pods=[pod])) == [
        "Release node-1 (entry 3): pod-a is there still"
    ]
    anew = wrote_object("create pods", "term=1 entry=5 Allocate node-1")
    later = [*entries, entry(5, STARTED, ALLOCATE)]
    deleted = wrote_object("delete pods", "term=1 entry=3 Release node-1", uid="b")
    assert witnesses.each_call_once(seen(deleted, anew, entries=later[1:], pods=[pod])) == []


def test_a_release_does_not_touch_what_was_made_for_another_node() -> None:
    made = wrote_object("create pods", "term=1 entry=1 Allocate node-1")
    entries = [*ONE_POD, entry(3, STARTED, Release(node="node-2"))]
    deleted = wrote_object("delete pods", "term=1 entry=3 Release node-2", version=2)
    assert witnesses.each_call_once(seen(made, deleted, entries=entries)) == [
        "delete pods pod-a: for node-2, and it was made for node-1"
    ]


def test_a_rank_is_forked_once_an_epoch_and_by_an_order_of_the_journal() -> None:
    told = Instruct(desired=Desired(node="node-1", generation=3, term=1, epoch=1))
    entries = [entry(1, STARTED, told)]
    fork = Fork(rank=0, epoch=1, node="node-1", generation=3, term=1)
    holds, stray = (
        witnesses.each_fork_once,
        Fork(rank=1, epoch=1, node="node-1", generation=4, term=1),
    )
    assert holds(seen(entries=entries, forked=[fork])) == []
    twice = ["rank 0 was forked 2 times in one attempt"]
    assert holds(seen(entries=entries, forked=[fork, fork])) == twice
    strays = ["node-1 forked rank 1 by nobody's order"]
    assert holds(seen(entries=entries, forked=[fork, stray])) == strays
