"""Standstills that may be nobody's fault: they are told, with why they are doubted."""

from typing import Any

from msgspec.structs import replace

from holdfast.protocol.faults import Finding, Weight


def stands(cluster: Any, stopped: int) -> None:
    """Nobody gets on: the first ranks are stopped, the others wait for them."""
    cluster.running = False

    def alter(seen: Any) -> Any:
        if seen.rank < stopped:
            return replace(seen, process="T", silent_s=60.0)
        (group,) = seen.groups
        return replace(seen, groups=(replace(group, enqueued=group.enqueued + 1),))

    cluster.alter = alter


def acted(cluster: Any, seconds: float) -> Finding:
    (found,) = [each for each in cluster.go(seconds) if each.weight is not Weight.REPORT]
    return found


def test_one_rank_that_is_stopped_is_no_doubt(cluster: Any) -> None:
    two = cluster(2)
    two.go(10.0)
    stands(two, 1)
    assert acted(two, 10.0).doubt == ""


def test_half_of_the_ranks_are_no_doubt(cluster: Any) -> None:
    two = cluster(2)
    two.go(10.0)
    stands(two, 2)
    assert acted(two, 10.0).doubt == ""


def test_most_ranks_that_are_paused_at_once_are(cluster: Any) -> None:
    two = cluster(2)
    two.go(10.0)
    stands(two, 3)
    assert acted(two, 10.0).doubt == "3 of its 4 ranks are paused at once"


def test_the_one_rank_of_a_job_is_not_most_of_it(cluster: Any) -> None:
    one = cluster(1)
    one.go(10.0)
    stands(one, 1)
    assert acted(one, 10.0).doubt == ""


def test_a_clock_that_jumped_lately_is(cluster: Any) -> None:
    for jump_s in (30.0, -3.0):
        two = cluster(2)
        two.go(10.0)
        stands(two, 1)
        two.go(4.0)
        two.extra = {"node-1": {"uptime_s": two.now + jump_s}}
        two.beat_all()
        del two.extra["node-1"]
        words = f"the clocks of the driver and of node-1 went {abs(jump_s):.0f} s apart"
        assert acted(two, 6.0).doubt == words


def test_one_that_jumped_long_ago_is_not(cluster: Any) -> None:
    two = cluster(2)
    two.go(10.0)
    two.extra = {"node-1": {"uptime_s": two.now + 30.0}}
    two.beat_all()
    two.extra = {}
    two.go(10.0)
    stands(two, 1)
    assert acted(two, 10.0).doubt == ""


def test_a_driver_that_stood_still_compares_no_clocks(cluster: Any) -> None:
    two = cluster(2)
    two.go(10.0)
    two.watch.stood_still(two.now)
    for name in two.names:
        two.extra[name] = {"uptime_s": two.now + 60.0}
    two.beat_all()
    two.extra = {}
    stands(two, 1)
    assert acted(two, 10.0).doubt == ""


def test_a_daemon_that_was_started_again_counts_anew(cluster: Any) -> None:
    two = cluster(2)
    two.go(10.0)
    two.extra = {"node-1": {"uptime_s": 0.1}}
    two.beat_all()
    stands(two, 1)
    assert acted(two, 10.0).doubt == ""
