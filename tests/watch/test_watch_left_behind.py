"""A rank that stands while its peers go on is told of, and taken back; who works alone is not."""

import math
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast.driver.watch import Watch
from holdfast.protocol.faults import Kind, Weight
from holdfast.protocol.messages import RankProgress

LINE = "rollout (worker.py:12)"
STANDS = {"frame": LINE}
WORKS = {"frame": LINE, "frame_still_s": 0.1}


def alone(seen: RankProgress) -> RankProgress:
    """Ranks of a job without collectives."""
    return replace(seen, groups=())


@pytest.fixture
def workers(cluster: Any) -> Any:
    """Two nodes, four ranks, ten seconds of steps of .2 s, each rank by itself."""
    two = cluster(2)
    two.alter = alone
    assert two.go(10) == []
    return two


def stands(cluster: Any, rank: int = 1, **seen: Any) -> None:
    """From now on it does no step, and is as `seen`; its peers go on."""
    began, step = cluster.now, cluster.step

    def alter(progress: RankProgress) -> RankProgress:
        if progress.rank != rank:
            return alone(progress)
        since_s = cluster.now - began
        fields = {"step": step, "frame_still_s": since_s, **seen}
        if "silent_s" in seen:
            fields["silent_s"] = since_s
        return replace(alone(progress), **fields)

    cluster.alter = alter


def test_one_that_is_stopped_is_told_within_seconds_and_taken_back(workers: Any) -> None:
    stands(workers, process="T", silent_s=1.0, **STANDS)
    assert workers.go(9) == []
    (said,) = workers.go(4)
    assert (said.kind, said.weight, said.rank, said.node) == (
        Kind.LEFT_BEHIND,
        Weight.REPORT,
        1,
        "node-0",
    )
    assert said.summary.startswith(f"rank 1 on node-0 stands at {LINE} for 1")
    assert " while its peers have done " in said.summary
    assert workers.watch.moment("job") is not None
    assert workers.go(100) == [], "once, and nothing is done"
    workers.alter = alone
    (over,) = workers.go(5)
    assert (over.kind, over.rank) == (Kind.MOVES_AGAIN, 1)


def test_one_that_is_stuck_is_told_after_twice_the_time_for_it(workers: Any) -> None:
    stands(workers, **STANDS)
    assert workers.go(29) == []
    assert [each.kind for each in workers.go(4)] == [Kind.LEFT_BEHIND]


def test_one_that_stops_early_kept_its_pace_whatever_its_peers_do_until_it_is_looked_at(
    cluster: Any,
) -> None:
    two = cluster(2)
    two.alter = alone
    two.go(4)
    stands(two, stopped_children=(41,), **STANDS)
    (said,) = two.go(34)
    assert (said.kind, said.rank) == (Kind.LEFT_BEHIND, 1)
    assert said.evidence[-1].text == "hint: its child process 41 is stopped"


@pytest.mark.parametrize(
    ("rank", "seen", "for_s"),
    [
        pytest.param(0, WORKS, 500, id="rank 0 evaluates alone, unmarked"),
        pytest.param(0, {"moved_s": 0.1, "moved": "bytes", **STANDS}, 500, id="it saves alone"),
        pytest.param(0, {"pause": "saves", **STANDS}, 118, id="it saves, marked, on a slow store"),
        pytest.param(0, {"sleep_s": 50.0, "sleep_left_s": 5.0, **STANDS}, 50, id="it sleeps"),
        pytest.param(1, {"waiting": True, **STANDS}, 500, id="it waits for a peer"),
        pytest.param(1, {"process": "gone", **STANDS}, 500, id="it has ended"),
    ],
)
def test_who_is_at_work_alone_or_waits_is_not_told(
    workers: Any, rank: int, seen: dict[str, Any], for_s: float
) -> None:
    stands(workers, rank, **seen)
    assert workers.go(for_s) == []


def test_of_peers_that_stand_as_well_the_standstill_is_told(workers: Any) -> None:
    workers.running = False
    workers.alter = lambda seen: replace(alone(seen), process="T", silent_s=9.0)
    assert Kind.LEFT_BEHIND not in [each.kind for each in workers.go(60)]


def test_a_rank_of_another_role_that_steps_seldom_is_not_told(cluster: Any) -> None:
    two = cluster(2)
    two.alter = lambda seen: replace(alone(seen), step=1) if seen.rank == 0 else alone(seen)
    two.go(10)
    stands(two, 0, step=1, **STANDS)
    assert two.go(300) == []


def test_what_ended_by_itself_is_known_at_its_line(workers: Any) -> None:
    stands(workers, **STANDS)
    workers.go(40)
    workers.alter = alone
    workers.go(5)
    stands(workers, **STANDS)
    assert workers.go(75) == []
    assert [each.kind for each in workers.go(10)] == [Kind.LEFT_BEHIND]


def test_what_an_earlier_driver_told_is_taken_back_once_all_go_on(workers: Any) -> None:
    watch, expected = Watch(), workers.watch._context.expected["job"]
    watch.recall("job", {Kind.LEFT_BEHIND: "node-0"})
    watch.expect(expected)
    workers.watch = watch
    assert [each.kind for each in workers.go(15)] == [Kind.MOVES_AGAIN]


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    stops=st.lists(
        st.tuples(st.integers(0, 3), st.floats(0.5, 8.0), st.booleans()), min_size=1, max_size=6
    )
)
def test_healthy_pauses_of_single_ranks_are_never_told(
    cluster: Any, stops: list[tuple[int, float, bool]]
) -> None:
    two = cluster(2)
    two.alter = alone
    two.go(10)
    for rank, for_s, silent in stops:
        stands(two, rank, **STANDS, **({"silent_s": 1.0} if silent else {}))
        assert two.go(math.ceil(for_s)) == []
        two.alter = alone
        assert two.go(3) == []
