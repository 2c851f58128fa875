"""Silence of nodes: found with a second source, quickly, and never with one."""

from collections.abc import ItemsView, ValuesView
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.driver.watch import silence
from holdfast.driver.watch.model import NodeSeen, Settings
from holdfast.protocol.faults import Kind, Weight
from holdfast.protocol.messages import RankProgress


@pytest.fixture
def running(cluster: Any) -> Any:
    """Four nodes, a job that has run for ten seconds."""
    four = cluster(4)
    for name in four.names:
        four.watch.connected(name, "executor", four.now)
        four.watch.connected(name, "daemon", four.now)
    assert four.go(10) == []
    return four


def kinds(findings: Any) -> list[tuple[Kind, str | None]]:
    return [(finding.kind, finding.node) for finding in findings]


def test_a_node_that_vanishes_without_a_reset_is_found_within_seconds(running: Any) -> None:
    running.silent = {"node-2"}
    running.answers["node-2"] = "silent"
    running.running = False
    lost, *_ = running.go(6)
    assert (lost.kind, lost.weight, lost.node) == (Kind.NODE_LOST, Weight.CONCLUSIVE, "node-2")
    texts = " | ".join(piece.text for piece in lost.evidence)
    assert "node-2 sent no heartbeat for 5." in texts
    assert "node-1 got no answer from node-2 for 4." in texts
    assert "node-0 got no answer from node-2 for 4." in texts
    assert [each for each in running.go(2) if each.kind is Kind.NODE_LOST] == [], "once"


def test_a_node_whose_link_is_down_for_three_seconds_is_waited_for(running: Any) -> None:
    """Its connections are back later than it: until then its kernel answers."""
    running.silent = {"node-2"}
    running.answers["node-2"] = "silent"
    running.running = False
    assert kinds(running.go(4)) == []
    running.answers["node-2"] = "ok"
    running.go(3)
    running.silent, running.running = set(), True
    running.go(10)
    assert all(each.weight is Weight.REPORT for each in running.found)


def test_a_node_of_which_the_cluster_says_so_is_gone_at_once(running: Any) -> None:
    running.silent = {"node-2"}
    running.answers["node-2"] = "silent"
    running.watch.fact("node-2", False, running.now)
    assert kinds(running.go(2)) == [(Kind.NODE_LOST, "node-2")]


def test_a_silent_daemon_whose_node_answers_is_reported_and_no_more(running: Any) -> None:
    running.silent = {"node-2"}
    for answer in ("ok", "reset"):
        running.answers["node-2"] = answer
        found = running.go(30)
        assert all(each.weight is Weight.REPORT for each in found)
    assert kinds(running.found) == [(Kind.DAEMON_LOST, "node-2"), (Kind.UNSEEN, None)]


def test_neighbours_that_get_no_answer_prove_nothing_while_heartbeats_come(running: Any) -> None:
    running.answers["node-2"] = "silent"
    assert running.go(30) == []


def test_silence_alone_is_no_finding(cluster: Any) -> None:
    one = cluster(1)
    assert one.go(10) == []
    one.silent = {"node-0"}
    assert kinds(one.go(60)) == [(Kind.UNSEEN, None)], "no finding of a node"


def test_the_cluster_is_a_second_source(cluster: Any) -> None:
    one = cluster(1)
    one.go(10)
    one.silent = {"node-0"}
    one.watch.fact("node-0", False, one.now)
    assert kinds(one.go(3)) == [(Kind.NODE_LOST, "node-0")]


def test_the_cluster_alone_proves_nothing_while_heartbeats_come(running: Any) -> None:
    running.watch.fact("node-1", False, running.now)
    assert running.go(20) == []


def test_an_executor_without_connection_is_reported_while_its_daemon_speaks(running: Any) -> None:
    running.watch.disconnected("node-1", "executor", running.now, "reset by peer")
    (finding,) = running.go(10)
    assert (finding.kind, finding.weight) == (Kind.EXECUTOR_LOST, Weight.REPORT)
    running.watch.connected("node-1", "executor", running.now)
    assert running.go(5) == []


def test_an_executor_that_is_back_at_once_is_not_worth_a_word(running: Any) -> None:
    running.watch.disconnected("node-1", "executor", running.now, "killed")
    running.go(1)
    running.watch.connected("node-1", "executor", running.now)
    assert running.go(10) == []


def test_all_nodes_silent_at_once_accuse_nobody(running: Any) -> None:
    running.silent = set(running.names)
    assert kinds(running.go(60)) == [(Kind.UNSEEN, None)]


def test_a_new_driver_accuses_nobody_before_most_nodes_have_reported(cluster: Any) -> None:
    four = cluster(4)
    four.silent = {"node-1", "node-2", "node-3"}
    four.answers["node-1"] = "silent"
    four.answered_s["node-1"] = four.now - 60
    assert four.go(9) == []
    four.silent = {"node-1"}
    assert kinds(four.go(2)) == [(Kind.NODE_LOST, "node-1")]


def test_a_node_that_died_while_the_driver_was_down_is_found(cluster: Any) -> None:
    four = cluster(4)
    four.silent = {"node-3"}
    four.answers["node-3"] = "silent"
    assert kinds(four.go(8)) == [(Kind.NODE_LOST, "node-3")]


def test_a_node_that_comes_back_and_vanishes_again_is_found_again(running: Any) -> None:
    for _ in range(2):
        running.silent, running.answers["node-2"] = {"node-2"}, "silent"
        assert kinds(running.go(6)) == [(Kind.NODE_LOST, "node-2")]
        running.silent, running.answers["node-2"] = set(), "ok"
        running.go(4)


def test_the_one_that_is_cut_off_does_not_accuse_the_others(running: Any) -> None:
    # node-0's link is cut: it hears nobody, and nobody hears it.
    running.silent = {"node-0"}
    running.answers["node-0"] = "silent"
    assert kinds(running.go(10)) == [(Kind.NODE_LOST, "node-0")]


def test_every_node_has_two_witnesses_and_the_period_grows_with_the_cluster(cluster: Any) -> None:
    orders = cluster(4).watch.instructions()
    assert orders == {}, "nobody is known yet"
    four = cluster(4)
    four.go(1)
    watched = [name for order in four.watch.instructions().values() for name, _ in order.neighbours]
    assert sorted(watched) == sorted(four.names * 2)
    assert {order.heartbeat_period_s for order in four.watch.instructions().values()} == {0.5}
    many = cluster(4_000)
    many.watch.tick(many.now)
    periods = {order.heartbeat_period_s for order in many.watch.instructions().values()}
    assert periods == {2.0}


class Counted(dict[str, NodeSeen]):
    """Nodes, and how often somebody went through all of them."""

    rounds = 0

    def values(self) -> ValuesView[NodeSeen]:  # type: ignore[override]
        self.rounds += 1
        return super().values()

    def items(self) -> ItemsView[str, NodeSeen]:  # type: ignore[override]
        self.rounds += 1
        return super().items()


def test_a_silence_of_all_nodes_is_judged_in_a_few_rounds_over_them() -> None:
    names = [f"node-{place}" for place in range(200)]
    nodes = Counted({name: NodeSeen(node=name, known_s=0.0, heard_s=1.0) for name in names})
    around = silence.Around(period_s=0.5, seated=frozenset(names))
    silence.judge(frozenset(), nodes, around, Settings(), now=60.0)
    assert nodes.rounds <= 5


def test_where_nobody_probes_a_node_those_that_wait_for_its_ranks_are_the_second_source(
    cluster: Any,
) -> None:
    two = cluster(2)
    two.extra["node-0"] = {"probes": ()}
    two.watch.connected("node-1", "executor", two.now)
    assert two.go(10) == []
    two.running, two.silent = False, {"node-1"}
    two.watch.disconnected("node-1", "executor", two.now, "no answer")

    def waits(seen: RankProgress) -> RankProgress:
        (group,) = seen.groups
        return replace(seen, groups=(replace(group, enqueued=group.enqueued + 1),))

    two.alter = waits
    (lost,) = [each for each in two.go(5) if each.kind is Kind.NODE_LOST]
    assert lost.node == "node-1"
    assert lost.evidence[-1].text.startswith("ranks on other nodes have waited")
