"""What others saw of a scenario on Kubernetes, held against what the driver says it did."""

from pathlib import Path
from random import Random
from typing import Any

import pytest
from made_seen import (
    ALLOCATED,
    CREATED,
    STARTED,
    asked,
    at_s,
    entry,
    forbidden,
    seen,
)

from holdfast.driver.core.effects import (
    Instruct,
)
from holdfast.driver.core.events import (
    DriverStarted,
)
from holdfast.kit.clock import SystemClock
from holdfast.lab.chaos.injectors import people
from holdfast.lab.chaos.kubernetes import leading, witnesses
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
    late = "step-00000025-epoch-1 was committed after a later attempt had begun at 20"
    assert holds(seen(entries=entries, stored=[(20, 1), (25, 1)])) == [late]
    assert holds(seen()) == ["no attempt began from a checkpoint"]


def test_a_left_over_has_to_have_met_the_fence_by_its_own_log(tmp_path: Path) -> None:
    logs = tmp_path / "pods" / "chaos-0-1" / "executor"
    logs.mkdir(parents=True)
    holds = witnesses.left_over_was_refused
    assert holds(seen(printed={"node-1": printed(tmp_path)})) == [
        "nothing on node-1 went on and met the fence"
    ]
    told = "writing to the store has ended: a new attempt of job chaos has begun"
    (logs / "0.log").write_text(f'{{"event": "{told}"}}\n')
    assert holds(seen(printed={"node-1": printed(tmp_path)})) != [], (
        "its executor told it: it tried nothing"
    )
    met = "writing to the store has ended: a later attempt of the job has begun"
    (logs / "1.log").write_text(f'{{"event": "{met}"}}\n')
    assert holds(seen(printed={"node-1": printed(tmp_path)})) == []


CLUNG = [
    "rendezvous 198.18.1.1 40125",
    "attempt 1: peers refused: Connection reset by peer",
    "attempt 1: new rendezvous refused, nobody there meets us: Connect timeout",
    "attempt 1: old rendezvous refused, nobody listens: timed out",
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
    met = "attempt 1: new rendezvous MET AGAIN"
    assert witnesses.left_overs_met_nobody(seen(told=[*CLUNG, met])) == [f"a rank of a dead {met}"]


def test_messages_have_to_be_repeated_both_ways_and_some_of_a_dead_epoch() -> None:
    holds = witnesses.messages_were_repeated
    each = Count(again=3, late=2, outdated=1)
    assert holds(seen(repeated=Counts(to_driver=each, to_nodes=each))) == []
    young = Counts(to_driver=each, to_nodes=Count(again=3, late=2))
    assert holds(seen(repeated=young)) == [
        "no message to nodes was repeated late and of an older attempt"
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
    promised = {3, 34, 35, 36, 37, 38, 40, 41, 43, 44, 45, 47, 50}
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
