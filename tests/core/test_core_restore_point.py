"""Which of a job's restore points is best, and why."""

from itertools import count

from hypothesis import given
from hypothesis import strategies as st
from made_jobs import made_job
from msgspec.structs import replace

from holdfast.driver.core import events as e
from holdfast.driver.core.attempt import known_points
from holdfast.driver.core.state.model import Attempt
from holdfast.driver.core.state.restore_point import (
    Choice,
    RestorePoint,
    Sealed,
    Status,
    Tainted,
    Verified,
    Where,
    Whole,
    best,
)
from holdfast.protocol.messages import Stored, Task

MEMORY, STORE = Where.MEMORY, Where.STORE
STATUSES: st.SearchStrategy[Status] = st.sampled_from(
    [Sealed(), Whole(), Verified(), Tainted(why="a rank died of it"), Tainted(why="it is damaged")]
)
POINTS = st.lists(
    st.builds(
        RestorePoint,
        step=st.integers(0, 6),
        epoch=st.integers(1, 4),
        where=st.sampled_from(Where),
        status=STATUSES,
    ),
    unique_by=lambda point: (point.where, point.saved),
)


def point(step: int, where: Where = STORE, status: Status = Whole()) -> RestorePoint:  # noqa: B008
    return RestorePoint(step=step, epoch=1, where=where, status=status)


@given(POINTS, st.none() | st.integers(0, 6))
def test_it_is_usable_and_none_that_is_usable_is_better(known, asked) -> None:
    chosen = best(known, asked=asked).point
    usable = [each for each in known if each.usable and asked in (None, each.step)]
    if chosen is None:
        assert not usable
        return
    assert chosen in usable
    assert chosen.step == max(each.step for each in usable)
    of_step = [each for each in usable if each.step == chosen.step]
    assert chosen.where is MEMORY or not any(each.where is MEMORY for each in of_step)


@given(POINTS, st.randoms())
def test_the_order_in_which_they_are_told_means_nothing(known, random) -> None:
    shuffled = random.sample(known, len(known))
    assert best(shuffled) == best(known)


@given(POINTS)
def test_what_is_newer_and_not_taken_is_named_with_its_reason(known) -> None:
    chosen, why = best(known)
    newer = [each for each in known if chosen is None or each.step > chosen.step]
    assert bool(why) == bool(newer) or (not known and "no checkpoint" in why)
    if newer:
        assert str(max(newer, key=lambda each: (each.step, each.where is MEMORY))) in why
    for each in newer:
        reason = each.status.why if isinstance(each.status, Tainted) else "not every rank has it"
        assert reason in why


@given(POINTS)
def test_a_taint_takes_a_point_out_and_leaves_the_choice_among_the_others(known) -> None:
    chosen = best(known).point
    if chosen is None:
        return
    others = [each for each in known if each is not chosen]
    tainted = replace(chosen, status=Tainted(why="a rank died of it"))
    assert best([*others, tainted]).point == best(others).point


def test_why_is_a_clause_of_a_sentence() -> None:
    whole, torn = point(10), point(14, MEMORY, Sealed())
    damaged = point(12, status=Tainted(why="it is damaged"))
    assert best([whole]) == Choice(whole)
    assert best([point(10, MEMORY, Sealed()), whole]) == Choice(whole), "the same step"
    assert best([torn, whole, damaged]).why == (
        "for the snapshot of step 14 in memory is not taken (not every rank has it) and "
        "the checkpoint of step 12 in the store is not taken (it is damaged)"
    )
    assert best([]) == Choice(None, "for no checkpoint of Holdfast is there")
    assert best([torn, whole], asked=0) == Choice(None, "as was asked")
    assert best([point(20), whole], asked=10) == Choice(whole, "as was asked")


# ---------------------------------------------------------------- what a job remembers

TASK = Task(command=("x",), workdir=".", store_url="file:///store", retention=2)
PLAN = e.Plan(task=TASK, nodes=1, ranks_per_node=1)
SAVES = st.lists(st.tuples(st.integers(1, 9), st.integers(1, 4)), max_size=8)


@given(SAVES, st.dictionaries(st.integers(1, 3), st.none() | st.integers(0, 9)))
def test_the_newest_of_the_line_are_remembered_and_by_whom_they_were_saved(saves, ends) -> None:
    history = tuple(
        Attempt(epoch=epoch, number=10 * epoch, layout=epoch, version=epoch, end=end)
        for epoch, end in ends.items()
    )
    job, at = made_job("job", PLAN, history=history), count(1)
    for step, epoch in saves:
        told = [Stored(step=step, epoch=epoch)]
        job = replace(job, points=known_points.acknowledge(job, told, written_s=float(next(at))))
    expected = sorted({save for save in saves if known_points.of_line(job, *save)})[-2:]
    known = known_points.in_store(job)
    assert [each.saved for each in known] == expected
    assert [(each.attempt, each.layout, each.version) for each in known] == [
        (10 * epoch, epoch, epoch) for _, epoch in expected
    ]


def test_what_is_tainted_stays_so_and_what_ranks_got_on_from_is_verified() -> None:
    job = made_job("job", PLAN, history=(Attempt(epoch=1, number=1, layout=1),))
    job = replace(job, points=known_points.acknowledge(job, [Stored(step=5, epoch=1)]))
    job = replace(job, points=known_points.verify(job, job.points[0]))
    assert [each.status for each in job.points] == [Verified()]
    job = replace(job, points=known_points.taint(job, job.points[0], "it was refused", 7.0, 5))
    tainted = Tainted(why="it was refused", since_s=7.0, after=5)
    for step in (6, 7, 8):
        job = replace(job, points=known_points.acknowledge(job, [Stored(step=step, epoch=1)]))
    assert [(each.step, each.status) for each in job.points] == [
        (5, tainted),
        (7, Whole()),
        (8, Whole()),
    ]
    assert known_points.verify(job, point(4)) == job.points, "it is not remembered"
    assert [each.step for each in known_points.after_start(job, 7)] == [5, 7]


def test_ranks_that_got_on_from_a_checkpoint_verify_it(storing) -> None:
    life, first = storing, storing.job.epoch
    life.stores(10)
    life.dies(1, signal=9)
    life.answer(stored=[(10, first)])
    assert [type(each.status) for each in life.job.points] == [Whole]
    life.progress(30)
    assert [type(each.status) for each in life.job.points] == [Verified]
    started = life.job.restore
    assert (started.attempt, started.layout, started.version) == (1, 1, 1)


def test_a_snapshot_that_ranks_died_of_is_tainted_since_then_and_says_why(training) -> None:
    life = training()
    first = life.job.epoch
    life.dies(1, signal=9, step=12)
    life.answer(snapshots=[(12, first)], stored=[(10, first)])
    life.dies(1, signal=7, step=12)
    life.answer(snapshots=[(12, first)], stored=[(10, first)])
    life.dies(1, signal=7, step=12)
    tainted = next(each for each in life.job.points if each.where is MEMORY)
    assert isinstance(tainted.status, Tainted)
    assert tainted.status.since_s == life.now
    assert "rank 1" in tainted.status.why
    life.answer(snapshots=[(12, first)], stored=[(10, first)])
    (start,) = (why for why in life.whys if "starts attempt 4" in why)
    assert "the snapshot of step 12 in memory is not taken (once ranks" in start
