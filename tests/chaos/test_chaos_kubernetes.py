"""What others saw of a scenario on Kubernetes, held against what the driver says it did."""

from pathlib import Path
from random import Random
from typing import Any

import pytest
from made_seen import (
    ALLOCATE,
    ALLOCATED,
    CREATED,
    ONE_POD,
    STARTED,
    asked,
    at_s,
    entry,
    forbidden,
    seen,
)

from holdfast.driver.core.effects import (
    AnyEffect,
    Distrust,
    Instruct,
    PutOnTrial,
    Release,
    Trust,
)
from holdfast.driver.core.events import (
    AllocationFailed,
    AnyEvent,
    DriverStarted,
    NodeAllocated,
    NodeDistrusted,
    NodeReleased,
    NodeTrusted,
)
from holdfast.driver.ports import Entry
from holdfast.kit.clock import SystemClock
from holdfast.lab.chaos.injectors import people
from holdfast.lab.chaos.kubernetes import leading, witnesses
from holdfast.lab.chaos.kubernetes.intentions import Intention, intentions
from holdfast.lab.chaos.kubernetes.scenarios import SCENARIOS
from holdfast.lab.chaos.kubernetes.seen import printed, told
from holdfast.lab.chaos.scenarios import chosen
from holdfast.lab.chaos.scripts import stepped
from holdfast.lab.chaos.scripts.stepped import SteppedClock
from holdfast.lab.cluster import Lab
from holdfast.lab.emulator.inside import NotPossible
from holdfast.lab.emulator.kubelet.images import Image, Images, pushed_file
from holdfast.lab.on_kubernetes import DRIVER
from holdfast.lab.replaying import Count, Counts
from holdfast.protocol.forks import Fork
from holdfast.protocol.messages import Desired, Restore, Seat

TAINT = {"key": "holdfast.dev/distrusted", "effect": "NoSchedule"}


# ---------------------------------------------------------------- each effect once


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
ON_TRIAL = PutOnTrial(job="j", node="node-1", trial=7)


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


def test_a_trial_that_is_asked_for_again_is_the_same_one() -> None:
    tried = NodeAllocated(job="j", node="node-1", cause=1)
    entries = [*order(tried, ON_TRIAL), entry(3, DriverStarted(term=2), ON_TRIAL, term=2)]
    assert intentions(entries, settled=3) == [
        Intention("PutOnTrial", "node-1", frozenset({1, 3}), came_about=True)
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
            "PutOnTrial node-1 (entry 1): create pods was done 0 times",
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
    twice = ["rank 0 was forked 2 times in epoch 1"]
    assert holds(seen(entries=entries, forked=[fork, fork])) == twice
    strays = ["node-1 forked rank 1 by nobody's order"]
    assert holds(seen(entries=entries, forked=[fork, stray])) == strays


# ---------------------------------------------------------------- two drivers


def wrote(term: int) -> dict[str, Any]:
    return asked("patch trainingjobs/status", f"term={term} entry=1 Status default/j")


def test_no_term_writes_after_a_later_one_neither_the_journal_nor_outside() -> None:
    entries = [entry(1, STARTED), entry(2, DriverStarted(term=2), term=2)]
    journal, calls = witnesses.terms_follow_each_other, witnesses.calls_of_terms_follow_each_other
    assert journal(seen(entries=entries)) == []
    assert calls(seen(wrote(1), wrote(1), wrote(2))) == []
    late = "term 1 after term 2"
    assert calls(seen(wrote(1), wrote(2), wrote(1), wrote(1))) == [
        f"the API server did what {late} asked"
    ]
    assert journal(seen(entries=[*entries, entry(3, ALLOCATED)])) == [f"the journal has {late}"]


def test_what_an_old_term_only_read_or_was_refused_is_no_harm() -> None:
    read = wrote(1) | {"verb": "get"}
    refused = wrote(1) | {"responseStatus": {"code": 409}}
    nobodys = asked("create tokenreviews")
    holds = witnesses.calls_of_terms_follow_each_other
    assert holds(seen(wrote(2), read, refused, nobodys)) == []


@pytest.mark.parametrize(
    ("up", "wrong"),
    [
        (["driver-2"], []),
        (["driver", "driver-2"], "of the drivers driver, driver-2 is up"),
        ([], "of the drivers none is up"),
        (["driver"], "of the drivers driver is up"),
    ],
)
def test_who_does_not_lead_any_more_has_to_have_ended(up: list[str], wrong: str) -> None:
    lease = {"spec": {"holderIdentity": "driver-2 at http://198.18.0.1:7481"}}
    found = leading.only_who_leads_is_up(seen(lease=lease, drivers_up=up))
    assert found == (
        [f"{wrong}, and driver-2 at http://198.18.0.1:7481 has the Lease"] if wrong else []
    )


# ---------------------------------------------------------------- other witnesses


def test_a_right_that_was_missing_is_told_and_a_quota_is_no_such_thing() -> None:
    full = asked("create pods", responseStatus={"code": 403})
    holds = witnesses.nothing_was_forbidden
    assert holds(seen(full)) == []
    assert holds(seen(forbidden(5))) == ["the driver may not create pods"]
    assert holds(seen(forbidden(5), CREATED)) != [], "what is allowed later was missing before"


def test_only_an_api_server_that_a_scenario_starts_may_forbid_and_until_it_is_ready() -> None:
    holds = witnesses.nothing_was_forbidden
    start = (at_s(10), at_s(20))
    assert holds(seen(forbidden(10), forbidden(20), api_starts=[start])) == []
    assert holds(seen(forbidden(9), api_starts=[start])) == ["the driver may not create pods"]
    assert holds(seen(forbidden(15), forbidden(21), api_starts=[start])) != []
    assert {each.name for each in SCENARIOS if each.starts_api} == {
        each.name for each in chosen(["37"], SCENARIOS) if not each.proxied
    }


def test_the_mark_of_an_eviction_is_read_off_what_was_written() -> None:
    wrote = asked("patch nodes", responseObject={"spec": {"taints": [TAINT]}})
    failed = wrote | {"responseStatus": {"code": 409}, "responseObject": {"status": "Failure"}}
    assert witnesses.marked(seen(wrote, wrote)) == ["node-1"]
    assert witnesses.marked(seen(failed, asked("patch nodes"))) == []


@pytest.mark.parametrize(
    ("holder", "wrong"),
    [("driver-1 at http://a:1", []), ("a-stranger", ["the Lease is held by a-stranger"])],
)
def test_a_stolen_lease_has_to_be_a_drivers_again(holder: str, wrong: list[str]) -> None:
    lease = {"spec": {"holderIdentity": holder}}
    assert leading.lease_is_back(seen(lease=lease)) == wrong
    assert leading.lease_is_back(seen()) == ["the Lease is held by nobody"]


def test_a_stolen_lease_has_to_be_left_to_the_thief_while_he_renews_it() -> None:
    def wrote(user: str) -> dict[str, Any]:
        about = {"resource": "leases", "namespace": "holdfast", "name": "holdfast-driver"}
        who, code = {"username": user}, {"code": 200}
        return {"verb": "update", "user": who, "objectRef": about, "responseStatus": code}

    ours, thief = wrote(DRIVER), wrote("admin")
    assert leading.theft_was_borne(seen(ours, thief, thief, ours)) == []
    assert leading.theft_was_borne(seen(ours, thief, ours, thief, ours)) != []
    assert leading.theft_was_borne(seen(ours, ours)) != []


def test_another_controllers_taint_has_to_stay() -> None:
    theirs = {"key": "example.com/theirs", "effect": "NoSchedule"}
    holds = witnesses.taint_stays("example.com/theirs")
    assert holds(seen(nodes={"node-1": {"spec": {"taints": [theirs, TAINT]}}})) == []
    gone = seen(nodes={"node-1": {"spec": {"taints": [TAINT]}}})
    assert holds(gone) == ["node-1 has lost the taint example.com/theirs"]


def test_that_a_node_was_silent_is_the_control_planes_word() -> None:
    unknown = {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}
    said = asked("patch nodes/status", responseObject=unknown)
    assert witnesses.was_not_ready(seen(said)) == []
    assert witnesses.was_not_ready(seen(asked("patch nodes/status"))) == [
        "node-1 was never NotReady"
    ]


def test_what_is_left_of_a_deleted_namespace_is_told_by_name() -> None:
    assert witnesses.nothing_is_left(seen()) == []
    left = seen(job={"kind": "TrainingJob"}, pods=[{"metadata": {"name": "chaos-0-1"}}])
    assert witnesses.nothing_is_left(left) == ["chaos-0-1 is left", "the job is left"]


def test_nobody_trains_again_where_it_was_left_in_peace() -> None:
    first = Fork(rank=0, epoch=1, node="node-1", generation=1, term=1)
    moved = Fork(rank=0, epoch=2, node="node-3", generation=1, term=1)
    back = Fork(rank=0, epoch=2, node="node-1", generation=2, term=1)
    assert witnesses.nobody_trains_there(seen(forked=[first, moved])) == []
    assert witnesses.nobody_trains_there(seen(forked=[first, back])) == [
        "rank 0 was forked on node-1 again"
    ]


def test_a_checkpoint_of_a_dead_epoch_after_the_next_began_is_wrong() -> None:
    restore = Restore(source="store", step=20, epoch=1)
    seat = Seat(node="node-3", address="198.18.1.3", rank=0, local_rank=0)
    desired = Desired(node="node-3", generation=1, term=1, epoch=2, seats=(seat,), restore=restore)
    entries = [entry(1, STARTED, Instruct(desired=desired))]
    holds = witnesses.dead_epochs_wrote_nothing
    assert holds(seen(entries=entries, stored=[(15, 1), (20, 1), (25, 2)])) == []
    late = "step 25 of epoch 1 was committed after epoch 2 had begun"
    assert holds(seen(entries=entries, stored=[(20, 1), (25, 1)])) == [late]
    assert holds(seen()) == ["no epoch began from a checkpoint"]


def test_a_left_over_has_to_have_met_the_fence_by_its_own_log(tmp_path: Path) -> None:
    logs = tmp_path / "pods" / "chaos-0-1" / "executor"
    logs.mkdir(parents=True)
    holds = witnesses.left_over_was_refused
    assert holds(seen(printed={"node-1": printed(tmp_path)})) == [
        "nothing on node-1 went on and met the fence"
    ]
    told = "writing to the store has ended: epoch 2 of job chaos has begun"
    (logs / "0.log").write_text(f'{{"event": "{told}"}}\n')
    assert holds(seen(printed={"node-1": printed(tmp_path)})) != [], (
        "its executor told it: it tried nothing"
    )
    met = "writing to the store has ended: epoch 2 has begun, this is epoch 1"
    (logs / "1.log").write_text(f'{{"event": "{met}"}}\n')
    assert holds(seen(printed={"node-1": printed(tmp_path)})) == []


CLUNG = [
    "rendezvous 198.18.1.1 40125",
    "epoch 1: peers refused: Connection reset by peer",
    "epoch 1: new rendezvous refused, nobody there meets us: Connect timeout",
    "epoch 1: old rendezvous refused, nobody listens: timed out",
]


def test_ranks_left_over_have_to_be_refused_by_everybody_by_their_own_logs(tmp_path: Path) -> None:
    folder = tmp_path / "attempt_1" / "rank_2"
    folder.mkdir(parents=True)
    holds = witnesses.left_overs_met_nobody
    assert len(holds(seen(told=told(tmp_path)))) == 3
    (folder / "stdout.log").write_text("\n".join(CLUNG) + "\n")
    assert holds(seen(told=told(tmp_path))) == []
    ended = CLUNG[2].replace("nobody there meets us", "nobody listens")
    assert holds(seen(told=[CLUNG[1], ended, CLUNG[3]])) == [
        "no rank that was left over was refused by the rendezvous of others"
    ]


def test_a_rank_left_over_that_meets_its_peers_again_is_wrong() -> None:
    met = "epoch 1: new rendezvous MET AGAIN"
    assert witnesses.left_overs_met_nobody(seen(told=[*CLUNG, met])) == [f"a rank of a dead {met}"]


def test_messages_have_to_be_repeated_both_ways_and_some_of_a_dead_epoch() -> None:
    holds = witnesses.messages_were_repeated
    each = Count(again=3, late=2, outdated=1)
    assert holds(seen(repeated=Counts(to_driver=each, to_nodes=each))) == []
    young = Counts(to_driver=each, to_nodes=Count(again=3, late=2))
    assert holds(seen(repeated=young)) == [
        "no message to nodes was repeated late and of an older epoch"
    ]
    assert len(holds(seen())) == 6


# ---------------------------------------------------------------- what faults are done with


def test_a_stepped_clock_is_wrong_by_what_was_said_last_and_only_on_the_wall(
    tmp_path: Path,
) -> None:
    clock, host = SteppedClock(tmp_path), SystemClock()
    assert abs((clock.wall() - host.wall()).total_seconds()) < 60
    stepped.step(tmp_path, -300.0)
    assert abs((clock.wall() - host.wall()).total_seconds() + 300) < 60
    stepped.step(tmp_path, 300.0)
    assert abs((clock.wall() - host.wall()).total_seconds() - 300) < 60
    before_s = host.monotonic_s()
    assert before_s <= clock.monotonic_s() <= host.monotonic_s()


def test_an_image_can_be_pulled_once_it_was_pushed(tmp_path: Path) -> None:
    name, pushed = "registry.example.com/training:2", pushed_file(tmp_path)
    images = Images([], pushed)
    assert images.find(name) is None
    pushed.write_text(f"{name}\n")
    assert images.find(name) == Image(name)
    assert images.find(f"{name}0") is None


def test_what_is_done_to_kubernetes_says_that_it_cannot_be_done_elsewhere(tmp_path: Path) -> None:
    with pytest.raises(NotPossible, match="--cluster kubernetes"):
        people.pod_deleted(Lab(tmp_path, nodes=1), "chaos", Random(1))


# ---------------------------------------------------------------- the table


def test_names_are_unique_and_every_promised_fault_has_a_scenario() -> None:
    names = [scenario.name for scenario in SCENARIOS]
    assert len(names) == len(set(names))
    promised = {3, 34, 35, 36, 37, 38, 40, 41, 43, 44, 50}
    assert promised == {scenario.number for scenario in SCENARIOS}
    assert [each.name for each in chosen(["40"], SCENARIOS)] == [
        "standby-bad",
        "standby-fails-test",
    ]


def test_two_drivers_share_a_journal() -> None:
    led = {each.name for each in SCENARIOS if each.two}
    assert led == {"leader-killed", "leader-stopped", "leader-killed-recovering"}
    assert all(each.shared for each in SCENARIOS if each.two)


def test_the_driver_is_killed_in_every_phase_of_a_recovery() -> None:
    names = {each.name.rpartition("-")[2] for each in chosen(["35"], SCENARIOS)}
    assert {"suspending", "diagnosing", "replacing", "restoring", "starting", "running"} <= names
