"""Ranks of which nothing is heard: that nobody sees whether their job stands still is told."""

from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.protocol.faults import Kind, Weight


def without_ranks(cluster: Any, *nodes: str, **more: Any) -> None:
    """Their daemons speak, and tell of no rank."""
    cluster.extra = {node: {"ranks": (), **more} for node in nodes}


def test_where_the_only_daemon_is_silent_it_is_said_and_when_it_speaks_again(cluster: Any) -> None:
    """Of one node there is no second source, so that it can be neither lost nor accused."""
    one = cluster(1)
    one.go(5)
    one.silent = {"node-0"}
    assert one.go(14) == []
    (said,) = one.go(120)
    assert (said.kind, said.weight, said.node) == (Kind.UNSEEN, Weight.REPORT, None), (
        "nobody is accused"
    )
    assert said.summary == (
        "nobody sees whether job stands still: nothing is heard of ranks 0, 1 for 15 s: "
        "the daemon of node-0 is silent"
    )
    one.silent = set()
    (over,) = one.go(5)
    assert (over.kind, over.summary) == (
        Kind.SEEN_AGAIN,
        "all ranks of job are heard of again",
    )


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({}, "the daemon of node-1 speaks, and sees their rings no more"),
        (
            {"unreadable": ("ring job.e1.r2.ring: cut short", "kernel log: no right")},
            "the daemon of node-1 cannot read them (ring job.e1.r2.ring: cut short)",
        ),
    ],
)
def test_so_is_a_daemon_that_sees_their_rings_no_more(
    cluster: Any, more: dict[str, Any], why: str
) -> None:
    two = cluster(2)
    two.go(5)
    without_ranks(two, "node-1", **more)
    (said,) = [each for each in two.go(20) if each.kind is Kind.UNSEEN]
    assert (said.node, said.weight) == (None, Weight.REPORT)
    assert said.summary.endswith(f"nothing is heard of ranks 2, 3 for 15 s: {why}")


def test_and_ranks_that_never_had_a_ring(cluster: Any) -> None:
    two = cluster(2)
    without_ranks(two, "node-0", "node-1")
    assert two.go(59) == []
    (said,) = two.go(120)
    assert "ranks 0, 1, 2, 3 for 60 s: a command that is no Python script" in said.summary


def test_of_a_rank_that_has_ended_its_executor_tells(cluster: Any) -> None:
    two = cluster(2)
    two.go(5)
    two.alter = lambda seen: replace(seen, process="gone")
    two.go(2)
    without_ranks(two, "node-0", "node-1")
    assert two.go(120) == []


def test_time_in_which_the_driver_stood_still_is_no_silence(cluster: Any) -> None:
    one = cluster(1)
    one.go(5)
    one.silent = {"node-0"}
    one.go(10)
    one.watch.stood_still(one.now)
    assert one.go(14) == []
    assert [each.kind for each in one.go(12)] == [Kind.UNSEEN]


def test_what_a_driver_before_told_is_not_told_again_and_taken_back(cluster: Any) -> None:
    one = cluster(1)
    one.watch.recall("job", {Kind.UNSEEN: "node-0"})
    without_ranks(one, "node-0")
    assert one.go(120) == []
    one.extra = {}
    assert [each.kind for each in one.go(5)] == [Kind.SEEN_AGAIN]


def test_a_new_attempt_that_is_heard_takes_it_back(cluster: Any) -> None:
    one = cluster(1)
    one.go(5)
    without_ranks(one, "node-0")
    one.go(20)
    one.epoch, one.extra = 2, {}
    one.expect()
    assert [each.kind for each in one.go(5)] == [Kind.SEEN_AGAIN]
