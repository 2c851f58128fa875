"""A loss that stays no number: the job starts from before it, and what comes again is told apart
from what was passing."""

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.conftest import Life

from holdfast.driver.core import events as e
from holdfast.driver.core.evidence import book
from holdfast.driver.core.faults import bad_loss
from holdfast.driver.core.state.fact import Act, Bearing, Hypothesis
from holdfast.driver.core.state.model import Phase
from holdfast.driver.core.state.restore_point import Tainted
from holdfast.protocol.faults import Blame, Finding, Kind, Rung, Weight
from holdfast.protocol.messages import Task

TASK = Task(
    command=("train",),
    workdir=".",
    store_url="file:///store/job",
    store_interval_steps=10,
    retention=8,
)
STORED = (80, 90, 100, 110, 120)
SOUND = 97


def begun(
    *, stored: Iterable[int] = STORED, nodes: int = 2, own_task: Task = TASK, **plan: object
) -> Life:
    """A job that trains, has saved these steps, and whose loss is to be no number from 100 on."""
    life = Life()
    life.do(e.DriverStarted(term=1))
    for k in range(nodes + 2):
        life.node(f"n{k}")
    life.submit(task=own_task, nodes=nodes, **plan)
    life.answer()
    life.progress(1)
    for step in stored:
        life.stores(step)
    return life


def no_number(life: Life, *, sound: int = SOUND, node: str | None = None) -> None:
    finding = Finding(
        kind=Kind.LOSS,
        weight=Weight.RESTART,
        job="job",
        epoch=life.job.epoch,
        node=node,
        step=125,
        sound=sound,
        summary=f"the loss is no number since step {sound + 3} on all ranks",
    )
    life.do(e.Found(finding=finding))


def answered(life: Life, memory: Iterable[int] = (124, 125)) -> None:
    """All that was saved by the first attempt is there: in the store, and in memory."""
    first = life.job.history[0].epoch
    known = [(step, first) for step in STORED]
    life.answer(snapshots=[(step, first) for step in memory], stored=known)


def test_the_job_starts_from_before_it_and_says_why() -> None:
    life = begun()
    no_number(life)
    answered(life)
    assert life.job.restore is not None
    assert (life.job.restore.step, life.job.attempt) == (90, 2)
    assert life.incident.rung is Rung.IN_PLACE
    assert life.incident.blame is Blame.UNKNOWN
    assert life.paid == [Blame.INFRASTRUCTURE]
    assert "what was saved after step 97 may come of a loss that is no number" in str(life.whys)
    assert "starts attempt 2 from the checkpoint of step 90 in the store" in str(life.whys)


def test_what_was_saved_since_is_tainted_at_once() -> None:
    life = begun()
    no_number(life)
    tainted = [each.step for each in life.job.points if isinstance(each.status, Tainted)]
    assert tainted == [100, 110, 120]
    life.stores(130, epoch=life.job.history[0].epoch)  # it was on its way
    assert isinstance(life.job.points[-1].status, Tainted)


def test_how_far_the_job_was_is_known_though_the_driver_dies_before_its_ranks_have_ended() -> None:
    """Else its first step would be further than ever, and the loss would never be past."""
    life = begun()
    no_number(life)
    assert life.job.best_step == 125


def test_a_snapshot_from_before_is_nearer_than_the_store() -> None:
    life = begun()
    no_number(life)
    answered(life, memory=(96, 125))
    assert life.job.restore is not None
    assert life.job.restore.step == 96


def test_who_is_past_it_accuses_nobody_where_all_ranks_had_it_at_once() -> None:
    life = begun()
    no_number(life)
    answered(life)
    life.progress(130)
    assert life.phase is Phase.RUNNING
    assert life.job.incident is None
    assert "it was passing" in life.whys[-1]
    assert not bad_loss.replayed(life.job)
    assert all(not life.state.nodes[node].record.facts for node in life.state.nodes)


def test_the_node_on_which_alone_it_began_is_accused_once_it_has_not_come_again() -> None:
    life = begun()
    first = life.job.nodes[1]
    no_number(life, node=first)
    answered(life)
    facts = life.state.nodes[first].record.facts
    assert [fact.bearing for fact in facts] == [Bearing.CONTEXT]
    life.progress(130)
    facts = life.state.nodes[first].record.facts
    assert [fact.bearing for fact in facts] == [Bearing.CONTEXT, Bearing.ACCUSES]
    assert book.accusers(facts, life.now) == 1
    assert first in life.job.nodes
    assert life.evicted == []


def test_what_comes_again_at_the_same_step_is_the_scripts_and_the_job_goes_on() -> None:
    life = begun()
    no_number(life)
    answered(life)
    no_number(life)
    assert (life.job.attempt, life.phase) == (2, Phase.RUNNING)
    assert "came again at the same step, which is of the data or the code: with" in life.whys[-1]
    assert "the job goes on as it is" in life.whys[-1]
    life.progress(130)
    assert "passing" not in life.whys[-1]
    no_number(life, sound=140)
    assert life.job.attempt == 2
    assert "led to the same before" in life.whys[-1]


def test_with_fail_the_job_ends_and_its_user_is_told_which_step() -> None:
    life = begun(on_bad_loss="fail")
    no_number(life)
    answered(life)
    no_number(life)
    life.wait(until_s=life.now + 60)
    assert life.job.failure is not None
    assert "no number since step 100" in life.job.failure.reason
    assert "of the data or the code" in life.job.failure.reason
    assert life.incident.blame is Blame.USER


def test_with_tell_nothing_is_done() -> None:
    life = begun(on_bad_loss="tell")
    no_number(life)
    assert life.job.attempt == 1
    assert life.job.spoiled is None
    assert "for recovery.onBadLoss is tell; the job goes on as it is" in life.whys[-1]


def test_where_nothing_is_kept_from_before_it_nothing_is_done() -> None:
    life = begun(stored=(100, 110, 120))
    no_number(life)
    assert life.job.attempt == 1
    assert "No checkpoint up to step 97, from before it, is known to be kept" in life.whys[-1]


@pytest.mark.parametrize("memory", [0, 1])
@pytest.mark.parametrize("wish", ["rollback", "tell", "fail"])
def test_a_job_without_a_store_never_begins_anew_for_it(memory: int, wish: str) -> None:
    """From step 0 all would be lost; what it has in memory is newer than the loss."""
    task = Task(command=("train",), workdir=".", memory_interval_steps=memory)
    life = begun(stored=(), own_task=task, on_bad_loss=wish)
    no_number(life)
    life.wait(until_s=life.now + 60)
    assert life.job.attempt == 1
    if wish == "fail":
        assert life.job.failure is not None
        assert "o checkpoint up to step 97, from before it, is known" in life.job.failure.reason
    else:
        assert (life.phase, life.job.failure) == (Phase.RUNNING, None)
        assert "the job goes on as it is" in life.whys[-1]


def test_what_it_saves_after_a_start_in_vain_can_be_used_again() -> None:
    """A script whose loss is none on purpose loses one start, and no checkpoint after that."""
    life = begun()
    no_number(life)
    answered(life)
    no_number(life)
    life.stores(130)
    assert life.job.points[-1].step == 130
    assert life.job.points[-1].usable


def test_a_node_on_which_alone_it_comes_again_is_left_once_before_the_script_is_believed() -> None:
    life = begun(nodes=3)
    first = life.job.nodes[1]
    no_number(life, node=first)
    answered(life)
    no_number(life, node=first)
    table = life.incident.table
    assert table is not None
    assert table.chosen is Hypothesis.NODE
    assert table.act in (Act.MOVE_WARM, Act.MOVE_COLD, Act.EXAM)


def test_at_other_steps_it_goes_back_twice_and_no_more() -> None:
    life = begun()
    for sound in (97, 92):
        no_number(life, sound=sound)
        answered(life)
    assert life.job.attempt == 3
    no_number(life, sound=85)
    assert life.job.attempt == 3
    assert "the job was started from before it twice" in life.whys[-1]


def test_what_befell_an_older_version_says_nothing_of_another() -> None:
    life = begun()
    no_number(life)
    assert bad_loss.replayed(life.job)
    facts = bad_loss.in_vain(life.job)
    assert {fact.held_for for fact in facts} == {Hypothesis.USER}


@given(
    st.sets(st.integers(1, 200), min_size=1, max_size=6),
    st.sets(st.integers(1, 200), max_size=3),
    st.integers(0, 200),
)
def test_no_rank_starts_from_what_is_not_sound(
    stored: set[int], memory: set[int], sound: int
) -> None:
    life = begun(stored=sorted(stored))
    no_number(life, sound=sound)
    first = life.job.history[0].epoch
    kept = sorted(stored)[-8:]
    if life.job.epoch == first:  # it was left alone
        assert min(kept) > sound
        return
    life.answer(snapshots=[(k, first) for k in memory], stored=[(k, first) for k in kept])
    assert life.job.restore is not None
    assert life.job.restore.step == max(k for k in {*kept, *memory} if k <= sound)


@pytest.mark.parametrize("restarts", [0, 1])
def test_where_the_budget_is_spent_the_job_goes_on_rather_than_ending(restarts: int) -> None:
    life = begun(infrastructure=e.Budget(restarts=restarts, window_s=3_600))
    for step in (97, 95):
        no_number(life, sound=step)
        if life.job.attempt == 1 and life.phase is not Phase.RUNNING:
            answered(life)
    assert not life.job.finished
    assert life.phase is Phase.RUNNING
    assert life.job.attempt == 1 + restarts
