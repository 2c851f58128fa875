"""From which step a job goes on."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from made_jobs import made_job
from msgspec.structs import replace

from holdfast.driver.core import events as e
from holdfast.driver.core.attempt.known_points import close_epochs, of_line
from holdfast.driver.core.attempt.restore_step import chosen, reached
from holdfast.driver.core.state.model import Attempt, Job, Phase
from holdfast.driver.core.state.node import Quiet
from holdfast.driver.core.state.restore_point import Choice, RestorePoint, Tainted, Where
from holdfast.protocol.messages import Snapshot, Stored, Task

PLAN = e.Plan(task=Task(command=("x",), workdir="."), nodes=2, ranks_per_node=1)


def job(*lived: Attempt, points: tuple[RestorePoint, ...] = ()) -> Job:
    places = ("a", "b")
    fields = {"phase": Phase.RESTORING, "history": lived, "points": points}
    return made_job("job", PLAN, places=places, **fields)


def memory(step: int, epoch: int) -> RestorePoint:
    return RestorePoint(step=step, epoch=epoch, where=Where.MEMORY)


def store(step: int, epoch: int) -> RestorePoint:
    return RestorePoint(step=step, epoch=epoch, where=Where.STORE)


def agree(quiet: dict[str, Quiet], *lived: Attempt) -> RestorePoint | None:
    return chosen(job(*lived), quiet).point


def snap(rank: int, *points: tuple[int, int]) -> tuple[Snapshot, ...]:
    return tuple(Snapshot(rank=rank, step=step, epoch=epoch) for step, epoch in points)


def test_the_newest_step_that_every_rank_has_in_its_nodes_memory() -> None:
    quiet = {
        "a": Quiet(snapshots=snap(0, (9, 1), (10, 1))),
        "b": Quiet(snapshots=snap(1, (8, 1), (9, 1))),
    }
    assert agree(quiet, Attempt(epoch=1)) == memory(9, 1)


def test_a_snapshot_of_a_rank_on_another_node_does_not_count() -> None:
    quiet = {"a": Quiet(snapshots=snap(0, (9, 1)) + snap(1, (9, 1))), "b": Quiet()}
    assert agree(quiet, Attempt(epoch=1)) is None


def test_the_store_where_memory_does_not_reach() -> None:
    quiet = {
        "a": Quiet(snapshots=snap(0, (9, 1)), stored=(Stored(step=5, epoch=1),)),
        "b": Quiet(),
    }
    assert agree(quiet, Attempt(epoch=1)) == store(5, 1)


def test_what_is_later_than_its_epochs_end_is_never_taken() -> None:
    stored = (Stored(step=50, epoch=1), Stored(step=30, epoch=1), Stored(step=32, epoch=2))
    quiet = {"a": Quiet(stored=stored), "b": Quiet()}
    history = (Attempt(epoch=1, end=30), Attempt(epoch=2))
    assert agree(quiet, *history) == store(32, 2)
    assert agree(quiet, *close_epochs(history, 30)) == store(30, 1)


def test_an_epoch_of_another_life_of_that_name_does_not_count() -> None:
    quiet = {"a": Quiet(stored=(Stored(step=50, epoch=7),)), "b": Quiet()}
    assert agree(quiet, Attempt(epoch=1)) is None


def test_a_restore_whose_ranks_died_at_once_is_not_tried_again() -> None:
    quiet = {
        "a": Quiet(snapshots=snap(0, (9, 1)), stored=(Stored(step=5, epoch=1),)),
        "b": Quiet(snapshots=snap(1, (9, 1))),
    }
    tainted = replace(memory(9, 1), status=Tainted(why="rank 0 died of it"))
    assert chosen(job(Attempt(epoch=1), points=(tainted,)), quiet) == Choice(
        store(5, 1), "for the snapshot of step 9 in memory is not taken (rank 0 died of it)"
    )


@given(
    st.lists(st.tuples(st.integers(0, 20), st.integers(1, 4)), max_size=12),
    st.lists(st.tuples(st.integers(0, 20), st.integers(1, 4)), max_size=12),
    st.lists(st.tuples(st.integers(0, 20), st.integers(1, 4)), max_size=6),
    st.dictionaries(st.integers(1, 4), st.none() | st.integers(0, 20)),
)
def test_it_is_the_best_of_all_that_may_be_taken(first, second, store, ends) -> None:
    quiet = {
        "a": Quiet(
            snapshots=snap(0, *first),
            stored=tuple(Stored(step=step, epoch=epoch) for step, epoch in store),
        ),
        "b": Quiet(snapshots=snap(1, *second)),
    }
    history = tuple(Attempt(epoch=epoch, end=end) for epoch, end in ends.items())
    allowed = [
        point
        for point in [*(set(first) & set(second)), *store]
        if point[1] in ends and (ends[point[1]] is None or point[0] <= ends[point[1]])
    ]
    chosen = agree(quiet, *history)
    assert (chosen.step if chosen else None) == max((step for step, _ in allowed), default=None)


@given(st.lists(st.integers(0, 50), min_size=1, max_size=8))
def test_after_a_rollback_nothing_beyond_it_counts(starts: list[int]) -> None:
    history: tuple[Attempt, ...] = ()
    for epoch, start in enumerate(starts, start=1):
        history = (*close_epochs(history, start), Attempt(epoch=epoch))
    trained = job(*history)
    for epoch in range(1, len(starts)):
        lowest = min(starts[epoch:])
        assert of_line(trained, lowest, epoch)
        assert not of_line(trained, lowest + 1, epoch)


def test_memory_that_kills_its_ranks_at_once_gives_way_to_the_store(training) -> None:
    life = training()
    first = life.job.epoch
    life.dies(1, signal=9, step=12)
    life.answer(snapshots=[(12, first)], stored=[(10, first)])
    for _ in range(2):
        assert life.job.restore.where == "memory"
        life.dies(1, signal=7, step=12)
        life.answer(snapshots=[(12, first)], stored=[(10, first)])
    assert (life.job.restore.where, life.job.restore.step) == ("store", 10)


def test_a_kill_from_outside_does_not_spoil_memory(training) -> None:
    life = training()
    first = life.job.epoch
    for _ in range(2):
        life.dies(1, signal=9, step=12)
        life.answer(snapshots=[(12, first)], stored=[(10, first)])
    assert life.job.restore.where == "memory"


def test_an_unreadable_store_is_waited_for_not_forgotten(storing) -> None:
    life = storing
    first = life.job.epoch
    life.dies(1, signal=9)
    life.answer(store_error="refused")
    assert life.phase is Phase.RESTORING
    assert "refused" in life.job.waiting
    life.wait(until_s=life.now + life.policy.store_s + 1)
    life.answer(stored=[(10, first)])
    assert life.phase is Phase.RUNNING
    assert life.job.restore.step == 10


def test_a_store_that_stays_away_is_looked_at_less_and_less_often(storing) -> None:
    """Each look ends what runs of the attempt and begins another: soon at first, then seldom."""
    life, looks = storing, []
    life.dies(1, signal=9)
    life.answer(store_error="refused")
    for _ in range(5):
        began_s, epoch = life.now, life.job.epoch
        while life.job.epoch == epoch:
            life.wait(until_s=life.now + 0.5)
        looks.append(life.now - began_s)
        life.answer(store_error="refused")
    assert looks[0] <= 6 < looks[2]
    assert all(later >= before for before, later in pairwise(looks))
    assert looks[-1] <= life.policy.store_s + 1


def test_what_was_reached_is_the_least_of_the_newest_snapshots_that_survive() -> None:
    kept = Quiet(snapshots=snap(0, (7, 2), (8, 2)) + snap(1, (7, 2), (9, 1)))
    lived = (Attempt(epoch=1, end=5), Attempt(epoch=2))
    assert reached(job(*lived), {"a": kept, "b": Quiet()}) == 7
    assert reached(job(*lived), {}) is None
    assert reached(job(), {"a": kept}) is None
