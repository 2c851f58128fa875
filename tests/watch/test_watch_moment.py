"""Each rank of a job at a moment, as pages are told: what it does, for whom it waits, its time."""

import tracemalloc
from typing import Any

import pytest
from msgspec.structs import replace
from tests.watch.conftest import Cluster
from tests.watch.test_watch_memory import beat, trained

from holdfast.driver.watch import Watch, lately
from holdfast.driver.watch.rank_rows import Moment
from holdfast.protocol.messages import RankProgress

STEP_S = 0.2


def clocks(seen: RankProgress) -> RankProgress:
    """Rank 3 computes for .15 s of each step, the others for .1; they wait for the rest of it."""
    cpu_s = 0.15 if seen.rank == 3 else 0.1
    return replace(
        seen,
        stepped_s=1.0 + STEP_S * seen.step,
        ran_s=cpu_s * seen.step,
        waited_s=(STEP_S - cpu_s) * seen.step,
        wall_s={"forward": 0.4 * cpu_s * seen.step, "backward": 0.6 * cpu_s * seen.step},
        thread_s={"forward": 0.3 * cpu_s * seen.step},
    )


def moment_of(watch: Watch) -> Moment:
    found = watch.moment("job")
    assert found is not None
    told, rows = found
    return replace(told, ranks=tuple(rows))


def test_from_the_second_look_on_it_is_told_where_each_ranks_time_goes(
    cluster: type[Cluster],
) -> None:
    made = cluster(2)
    made.alter = clocks
    made.go(5)
    assert all(row.spent is None for row in moment_of(made.watch).ranks)
    made.go(10)
    rows = moment_of(made.watch).ranks
    assert [row.rank for row in rows] == [0, 1, 2, 3]
    for row in rows:
        assert row.spent is not None
        cpu_s = 0.15 if row.rank == 3 else 0.1
        assert row.spent.own_s == pytest.approx(cpu_s)
        assert row.spent.waits_s == pytest.approx(STEP_S - cpu_s)
        assert row.spent.wall_s["backward"] == pytest.approx(0.6 * cpu_s)
        assert row.spent.thread_s["forward"] == pytest.approx(0.3 * cpu_s)
        assert lately.WINDOW_S <= row.spent.window_s <= 2 * lately.WINDOW_S + 0.5


def test_it_is_of_the_last_seconds_and_not_since_the_start(cluster: type[Cluster]) -> None:
    made = cluster(2)
    made.alter = clocks
    made.go(5)
    moment_of(made.watch)
    made.go(10)
    began = made.step
    made.alter = lambda seen: replace(clocks(seen), paused_s=0.05 * (seen.step - began))
    made.go(4 * lately.WINDOW_S)
    spent = moment_of(made.watch).ranks[0].spent
    assert spent is not None
    assert spent.pauses_s == pytest.approx(0.05)


def test_nothing_is_kept_of_a_job_that_nobody_looks_at() -> None:
    def kept(watch: Watch, *, looks: bool) -> int:
        tracemalloc.start()
        try:
            if looks:
                watch.moment("job")
            for node in range(40):
                watch.heard(beat(node, 41), 20.5)
            return tracemalloc.get_traced_memory()[0]
        finally:
            tracemalloc.stop()

    alone = trained()
    kept(trained(), looks=True)  # what is kept but once
    without, with_ = kept(alone, looks=False), kept(trained(), looks=True)
    assert with_ - without > 320 * 300  # else this test sees nothing
    assert alone._lately._lived == {}


def test_a_minute_after_the_last_question_nothing_is_kept_any_more(cluster: type[Cluster]) -> None:
    made = cluster(1)
    made.go(5)
    moment_of(made.watch)
    made.go(lately.FORGOTTEN_S - 2)
    assert made.watch._lately._lived["job"]
    made.go(4)
    assert made.watch._lately._lived == {}


def test_while_a_job_goes_nobody_is_said_to_wait(cluster: type[Cluster]) -> None:
    made = cluster(2)
    made.go(10)
    found = moment_of(made.watch)
    assert (found.waits, found.ends) == ((), ())
    assert {row.state for row in found.ranks} == {"runs"}


def held_at_2(cluster: type[Cluster]) -> Cluster:
    """Rank 2 has not come to what all others wait in, for three seconds."""
    made = cluster(2)
    made.go(10)
    made.running = False
    before = made.step

    def held(seen: RankProgress) -> RankProgress:
        if seen.rank == 2:
            return replace(seen, frame="data.py:7 next")
        (group,) = seen.groups
        further = replace(group, enqueued=before + 1, done=before)
        return replace(seen, groups=(further,), waiting=True)

    made.alter = held
    made.go(3)
    return made


def test_who_holds_a_job_up_is_named_and_who_waits_for_it(cluster: type[Cluster]) -> None:
    found = moment_of(held_at_2(cluster).watch)
    (wait,) = found.waits
    assert (wait.waiting, wait.lacking) == ((0, 1, 3), (2,))
    assert wait.where.startswith("all_reduce #")
    assert found.ends == (2,)
    rows = {row.rank: row for row in found.ranks}
    assert [rows[rank].state for rank in range(4)] == ["waits", "waits", "still", "waits"]
    assert (rows[0].waits_on, rows[0].waits_on_count) == ((2,), 1)
    assert rows[0].waits_in == wait.where
    assert "the waits of 3 ranks end at rank 2" in rows[2].verdict
    assert rows[2].frame == "data.py:7 next"


def test_who_moves_meanwhile_is_not_said_to_wait(cluster: type[Cluster]) -> None:
    """Ranks 0 and 3 are in the same collective; that of rank 3 is one of a moment."""
    made = cluster(2)
    made.go(10)
    at = made.step

    def seen_of(seen: RankProgress) -> RankProgress:
        (group,) = seen.groups
        waits = seen.rank in (0, 3)
        group = replace(group, enqueued=at + waits, done=at)
        step = seen.step if seen.rank == 3 else at
        return replace(seen, groups=(group,), waiting=waits, step=step)

    made.alter = seen_of
    made.go(3)
    found = moment_of(made.watch)
    assert [wait.waiting for wait in found.waits] == [(0,)]
    assert [row.state for row in found.ranks] == ["waits", "still", "still", "runs"]


def test_a_node_of_which_nothing_is_heard_has_ranks_that_are_not_seen(
    cluster: type[Cluster],
) -> None:
    made = cluster(2)
    made.go(10)
    made.silent = {"node-1"}
    made.go(3)
    rows = moment_of(made.watch).ranks
    assert [row.state for row in rows[2:]] == ["unseen", "unseen"]
    assert all(row.heard_s > 2 for row in rows[2:])


@pytest.mark.parametrize(
    ("changed", "state"),
    [
        pytest.param({"process": "T"}, "stopped", id="stopped"),
        pytest.param({"process": "Z"}, "gone", id="gone"),
        pytest.param({"pause": "saves"}, "pauses", id="pauses"),
    ],
)
def test_what_a_rank_does_has_a_word(
    cluster: type[Cluster], changed: dict[str, Any], state: str
) -> None:
    made = cluster(1)
    made.alter = lambda seen: replace(seen, **changed) if seen.rank == 1 else seen
    made.go(2)
    assert moment_of(made.watch).ranks[1].state == state


def test_what_the_slow_detector_told_is_the_ranks_verdict(cluster: type[Cluster]) -> None:
    made = cluster(4)
    late = {"by": 0.0}
    sums: dict[int, list[float]] = {rank: [0.0, 0.0, 0.0] for rank in range(8)}

    def worked(seen: RankProgress) -> RankProgress:
        known = sums[seen.rank]
        cpu_s = 0.1 * (1 + (late["by"] if seen.rank == 5 else 0.0))
        steps = seen.step - known[2]
        known[0], known[1], known[2] = known[0] + cpu_s * steps, known[1] + 0.2 * steps, seen.step
        waits_s = known[1] - known[0]
        return replace(seen, stepped_s=1 + known[1], ran_s=known[0], waited_s=waits_s)

    made.alter = worked
    made.go(40)
    assert all(not row.verdict for row in moment_of(made.watch).ranks)
    late["by"] = 0.5
    made.go(30)
    told = {row.rank: row.verdict for row in moment_of(made.watch).ranks if row.verdict}
    assert set(told) == {5}
    assert told[5].startswith("holds its peers up: its own part of a step takes ")
    late["by"] = 0.0
    made.go(60)
    assert all(not row.verdict for row in moment_of(made.watch).ranks)
