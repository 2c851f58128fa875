"""A fault that did not take effect is told: what others saw of it, and what they see without it."""

from typing import Any

import pytest
from made_seen import STARTED, asked, at, at_s, entry, seen

from holdfast.driver.core.events import ExecutorConnected, ExecutorDisconnected, Stalled
from holdfast.driver.ports import Entry
from holdfast.lab.chaos.injectors import Done
from holdfast.lab.chaos.kubernetes import fault_witnesses, leading
from holdfast.lab.chaos.kubernetes.rows import GONE
from holdfast.lab.chaos.kubernetes.scenarios import SCENARIOS
from holdfast.lab.emulator.kubelet.joined import WATCHER
from holdfast.lab.kubernetes.proxy import Answered
from holdfast.protocol.forks import Fork

FORK = Fork(rank=0, epoch=1, node="node-1", generation=1, term=1)


def test_a_driver_that_was_killed_had_to_be_started_again() -> None:
    assert fault_witnesses.driver_was_killed()(seen(driver_starts=2)) == []
    assert fault_witnesses.driver_was_killed()(seen()) == [
        "the driver was started again 0 times, not 1"
    ]
    assert fault_witnesses.driver_was_killed(10)(seen(driver_starts=10)) != []


def test_a_driver_that_was_stopped_has_stood_still_by_its_journal() -> None:
    stood = entry(1, Stalled(stood_s=6.0), now=9.0)
    assert fault_witnesses.driver_stood_still(5.0)(seen(entries=[stood])) == []
    assert fault_witnesses.driver_stood_still(30.0)(seen(entries=[stood])) == [
        "the driver stood still for 6.0 s, not 30"
    ]
    assert fault_witnesses.driver_stood_still(5.0)(seen()) == [
        "the driver stood still for 0.0 s, not 5"
    ]


def test_a_kubelet_that_was_killed_lists_its_pods_once_more() -> None:
    listed = asked("list pods") | {"user": {"username": WATCHER}}
    drivers = asked("list pods")
    assert fault_witnesses.kubelet_began_anew(seen(listed, listed)) == []
    assert fault_witnesses.kubelet_began_anew(seen(listed, drivers)) == [
        "the kubelet of all nodes never began anew"
    ]


NOWHERE = (
    '{"url": "http://198.18.0.1:7480", "error": "did not receive a valid HTTP response", '
    '"event": "no driver", "process": "executor node-1", "level": "warning"}'
)
CLOSED = NOWHERE.replace("did not receive a valid HTTP response", "[Errno 111] Connect call failed")


def away(until_s: float, node: str = "node-1", *, from_s: float = 0.0) -> list[Entry]:
    """The journal of a driver that was without the node's executor for so long."""
    lost = ExecutorDisconnected(node=node, incarnation="a")
    back = ExecutorConnected(node=node, incarnation="a", address="")
    return [entry(1, lost, now=from_s), entry(2, back, now=until_s)]


@pytest.mark.parametrize(
    ("said", "journal", "wrong"),
    [
        pytest.param([NOWHERE], away(24), [], id="cut off"),
        pytest.param(
            [CLOSED],
            away(24),
            ["node-1 was never led nowhere on its way to the driver"],
            id="only its gateway died",
        ),
        pytest.param(
            [NOWHERE],
            [away(24)[0], away(2, "node-2")[1], away(24, "node-2", from_s=22)[0], away(24)[1]],
            [],
            id="others come and go",
        ),
        pytest.param(
            [NOWHERE],
            away(2),
            ["the driver was without node-1 for 2.0 s, not 25"],
            id="back at once",
        ),
        pytest.param(
            [NOWHERE],
            away(24, "node-2"),
            ["the driver was without node-1 for 0.0 s, not 25"],
            id="another node",
        ),
    ],
)
def test_nodes_that_are_cut_off_are_led_nowhere_for_as_long_as_is_said(
    said: list[str], journal: list[Entry], wrong: list[str]
) -> None:
    what = seen(entries=journal, forked=[FORK], printed={"node-1": said})
    assert fault_witnesses.nodes_were_cut_off(25)(what) == wrong


def test_where_no_rank_ran_nobody_was_cut_off() -> None:
    assert fault_witnesses.nodes_were_cut_off(25)(seen()) == ["there was no executor to be cut off"]


def test_a_way_that_is_silent_stands_still_for_as_long_as_is_said() -> None:
    holds = fault_witnesses.way_to_api_stood_still(25)
    assert holds(seen(answered=Answered(longest_pause_s=24.5))) == []
    assert holds(seen(answered=Answered(longest_pause_s=3))) == [
        "the way to the API server stood still for 3.0 s only"
    ]


def test_an_api_server_that_is_down_writes_no_audit_log() -> None:
    holds = fault_witnesses.api_server_was_away(120)
    first, second, last = ({**asked("get nodes"), "stageTimestamp": at(n)} for n in (0, 119, 240))
    assert holds(seen(first, last)) == []
    assert holds(seen(last, first)) == [], "it is not written in order"
    assert holds(seen(first, second)) == ["the API server was away for 119.0 s only"]
    assert holds(seen()) != []


def listed(what: str, second: int) -> dict[str, Any]:
    return asked(f"list {what}") | {"stageTimestamp": at(second)}


def forgotten(path: str, why: str = "too old resource version: 5 (8) (410)") -> str:
    return f'{{"path": "{path}", "why": "watch {path}: {why}", "event": "cannot see"}}'


PATHS = ("/api/v1/nodes", "/api/v1/namespaces/a/pods", "/apis/h/v1/namespaces/a/trainingjobs")


def test_watches_begin_anew_for_a_410_and_for_nothing_else() -> None:
    told = [forgotten(path) for path in PATHS]
    lists = [listed(what, 30) for what in fault_witnesses.FOLLOWED]
    started = {"driver_said": told, "api_starts": [(at_s(10), at_s(20))]}
    holds = fault_witnesses.watches_began_anew
    assert holds(seen(*lists, **started)) == []
    assert holds(seen(*lists, **{**started, "driver_said": told[1:]})) == [
        "no watch of nodes was answered 410"
    ]
    other = [forgotten(PATHS[0], "nodes is forbidden (403)"), *told[1:]]
    assert holds(seen(*lists, **{**started, "driver_said": other})) == [
        "no watch of nodes was answered 410"
    ]
    early = [listed("nodes", 5), *lists[1:]]
    assert holds(seen(*early, **started)) == ["nodes were not listed anew"]
    assert len(holds(seen(*lists))) == 6, "nobody started the API server"


def test_answers_are_bad_or_slow_by_who_made_them_so() -> None:
    assert fault_witnesses.answers_were_bad(seen(answered=Answered(bad=1))) == []
    assert fault_witnesses.answers_were_bad(seen(answered=Answered(late=1))) == [
        "the driver was given no bad answer"
    ]
    for slow in (Answered(late=1), Answered(never=1)):
        assert fault_witnesses.answers_were_slow(seen(answered=slow)) == []
    assert fault_witnesses.answers_were_slow(seen(answered=Answered(bad=1))) == [
        "no answer to the driver came late or never"
    ]


def test_a_stepped_clock_parts_from_the_one_that_nobody_steps() -> None:
    def journal(*seconds: int) -> list[Entry]:
        return [entry(n, STARTED, now=n, at=at(second)) for n, second in enumerate(seconds)]

    holds = fault_witnesses.clock_was_stepped(300)
    assert holds(seen(entries=journal(0, 1, 302))) == []
    assert holds(seen(entries=journal(400, 401, 102))) == []
    assert holds(seen(entries=journal(0, 1, 3))) == ["the driver's clock was 1.0 s off only"]


def test_a_lease_is_deleted_by_a_stranger_and_made_anew_by_a_driver() -> None:
    about = {"resource": "leases", "namespace": "holdfast", "name": "holdfast-driver"}
    deleted = asked("delete leases", objectRef=about) | {"user": {"username": "admin"}}
    deleted |= {"responseStatus": {"code": 200}}
    made = asked("update leases", objectRef=about, responseStatus={"code": 201})
    renewed = asked("update leases", objectRef=about, responseStatus={"code": 200})
    others = deleted | {"objectRef": about | {"namespace": "kube-system"}}
    assert leading.lease_was_deleted(seen(made, deleted, made)) == []
    strange = [[made], [made, deleted], [others, made], [deleted, renewed]]
    for audited in (*strange, [deleted | {"user": made["user"]}, made]):
        assert leading.lease_was_deleted(seen(*audited)) != []


def test_what_else_was_hurt_carries_nothing_in_the_end() -> None:
    done = Done(said="", node="node-2", also=("node-1",))
    moved = Fork(rank=0, epoch=2, node="node-3", generation=1, term=1)
    assert fault_witnesses.others_carry_nothing(seen(done=done, forked=[FORK, moved])) == []
    assert fault_witnesses.others_carry_nothing(seen(done=done, forked=[FORK])) == [
        "node-1 was hurt, and carries ranks to the end"
    ]
    assert fault_witnesses.others_carry_nothing(seen()) == ["no other node was hurt"]


TOLD_OTHERWISE = {
    "never-scheduled": "its injector waits until the job says what it lacks",
    "image-missing": "likewise",
}


def test_every_fault_that_is_not_to_be_found_has_somebody_who_saw_it() -> None:
    silent = {each.name for each in SCENARIOS if not (each.expected.incident or each.there)}
    gone = {each.name for each in SCENARIOS if each.expected.phase == GONE}
    assert silent == {*TOLD_OTHERWISE, *gone}


def test_what_comes_besides_another_fault_has_somebody_who_saw_it() -> None:
    besides = ("driver-", "api-", "clock-", "lease-", "standby-bad", "messages-", "node-after-")
    rows = [each for each in SCENARIOS if each.name.startswith(besides)]
    assert len(rows) > 10
    assert [each.name for each in rows if not each.there] == []
