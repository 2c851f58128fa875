"""The detectors of a driver that stood still: their time stood, and nobody is accused for it."""

from typing import Any

from holdfast.protocol.faults import Kind


def _stands_still(nodes: Any) -> None:
    """For so long that executors and daemons have left, and are still to come back."""
    for name in nodes.names:
        for process in ("daemon", "executor"):
            nodes.watch.connected(name, process, nodes.now)
    nodes.go(5.0)
    nodes.watch.stood_still(nodes.now)
    for name in nodes.names:
        for process in ("daemon", "executor"):
            nodes.watch.disconnected(name, process, nodes.now, "it answered no ping")


def test_nobody_is_accused_while_all_come_back(cluster: Any) -> None:
    for count in (1, 2, 4):
        nodes = cluster(count)
        _stands_still(nodes)
        nodes.silent = set(nodes.names)
        assert nodes.go(4.0) == []
        nodes.silent = set()
        for name in nodes.names:
            nodes.watch.connected(name, "daemon", nodes.now)
            nodes.watch.connected(name, "executor", nodes.now)
        assert nodes.go(10.0) == []


def test_who_died_meanwhile_is_found_all_the_same(cluster: Any) -> None:
    nodes = cluster(4)
    _stands_still(nodes)
    nodes.silent = {"node-1"}
    nodes.answers["node-1"] = "silent"
    nodes.running = False
    kinds = {each.kind for each in nodes.go(20.0) if each.node == "node-1"}
    assert Kind.NODE_LOST in kinds


def test_steps_that_went_unseen_tell_no_speed(cluster: Any) -> None:
    nodes = cluster(2)
    nodes.go(10.0)
    before = nodes.watch.progress("job")
    nodes.watch.stood_still(nodes.now)
    nodes.step += 120
    nodes.go(0.6)
    after = nodes.watch.progress("job")
    assert after.step_s == before.step_s
    assert after.tokens_per_s <= 2 * before.tokens_per_s
