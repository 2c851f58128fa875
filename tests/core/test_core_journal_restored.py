"""A journal that was put back from a backup: the cluster knows more than it does."""

import pytest

from holdfast.driver.core import events as e
from holdfast.driver.core.effects import Distrust
from holdfast.driver.core.job.epochs import LOST
from holdfast.driver.core.state.model import Phase
from holdfast.protocol.faults import Kind
from holdfast.protocol.messages import Restore, Task

STORING = Task(command=("train",), workdir=".", store_url="file:///s", store_interval_steps=5)


def come_back(life, node: str, *, epoch: int) -> None:
    """The executor of before, which has followed `epoch` since the backup was made."""
    address = life.state.nodes[node].address
    known = life.state.nodes[node].incarnation
    life.do(e.ExecutorConnected(node=node, incarnation=known, address=address, epoch=epoch))


@pytest.fixture
def put_back(training):
    """A job in its first epoch, as the backup has it, and a driver that begins from there."""
    life = training(spare=1)
    life.do(e.DriverStarted(term=7))
    life.effects.clear()
    return life


def test_the_next_epoch_is_later_than_any_that_anyone_knows(put_back) -> None:
    come_back(put_back, "n0", epoch=9)
    assert put_back.phase is Phase.SUSPENDING
    assert put_back.job.epoch == 10 + LOST
    assert (put_back.told("n0").epoch, put_back.told("n0").seats) == (10 + LOST, ())
    assert put_back.told("n1").epoch == 10 + LOST, "so it is never told the old one again"
    assert "n0 has followed order 9, and the journal gave none after 1" in put_back.whys[-1]
    assert put_back.incident.kind is Kind.JOURNAL_PUT_BACK


def test_what_the_newest_epoch_saved_is_gone_on_from(put_back) -> None:
    come_back(put_back, "n0", epoch=9)
    come_back(put_back, "n1", epoch=9)
    put_back.answer(stored=[(40, 9), (20, 1)])
    assert put_back.job.restore.order == Restore(source="store", step=40, epoch=9)
    put_back.progress(41)
    assert put_back.phase is Phase.RUNNING
    assert not put_back.incident.open
    assert put_back.ordered(Distrust) == []


def test_a_job_on_its_way_to_ranks_goes_on_from_what_the_newest_epoch_saved(training) -> None:
    """The backup is of the middle of a recovery, whose attempt had begun before it was put back."""
    life = training()
    life.dies(0)
    assert life.phase is Phase.SUSPENDING
    life.do(e.DriverStarted(term=7))
    come_back(life, "n0", epoch=9)
    come_back(life, "n1", epoch=9)
    assert life.job.epoch > 9
    life.answer(stored=[(40, 9), (20, 1)])
    assert life.told("n0").restore == Restore(source="store", step=40, epoch=9)


def test_it_is_found_once_and_the_others_follow(put_back) -> None:
    come_back(put_back, "n0", epoch=9)
    come_back(put_back, "n1", epoch=9)
    assert put_back.job.epoch == 10 + LOST
    assert len(put_back.state.incidents) == 1


def test_a_free_node_counts_too(put_back) -> None:
    come_back(put_back, "n2", epoch=12)
    come_back(put_back, "n0", epoch=1)
    come_back(put_back, "n1", epoch=1)
    assert put_back.phase is Phase.RUNNING, "its ranks are those that the journal knows"
    put_back.dies(0)
    assert put_back.job.epoch == 13 + LOST


def test_executors_that_know_no_more_than_the_journal_change_nothing(put_back) -> None:
    come_back(put_back, "n0", epoch=1)
    come_back(put_back, "n1", epoch=1)
    assert (put_back.phase, put_back.job.epoch) == (Phase.RUNNING, 1)
    assert put_back.state.incidents == {}


def comes_with(life, node: str, *, epoch: int, ahead: int) -> None:
    """The executor of before comes back, with so many orders more than the journal has given."""
    known = life.state.nodes[node]
    life.do(
        e.ExecutorConnected(
            node=node,
            incarnation=known.incarnation,
            address=known.address,
            epoch=epoch,
            generation=known.told.generation + ahead,
        )
    )


def test_orders_of_the_same_epoch_that_the_journal_lacks_are_noticed_once(put_back) -> None:
    """The backup is of the epoch in which the executors still are, which has gone on since: it was
    seated again, and trained twice under one name."""
    old = put_back.job.epoch
    comes_with(put_back, "n0", epoch=old, ahead=0)  # as many as this driver counts up to itself
    assert put_back.incident.kind is Kind.JOURNAL_PUT_BACK
    new = put_back.job.epoch
    assert new > old
    comes_with(put_back, "n1", epoch=old, ahead=0)
    assert put_back.job.epoch == new
    assert put_back.state.incident_count == 1


def test_who_has_followed_what_the_journal_gave_is_believed(put_back) -> None:
    old = put_back.job.epoch
    comes_with(put_back, "n0", epoch=old, ahead=-1)
    comes_with(put_back, "n1", epoch=old, ahead=-1)
    assert (put_back.job.epoch, put_back.phase) == (old, Phase.RUNNING)
    assert put_back.state.incident_count == 0


def test_a_later_epoch_of_one_node_does_not_hide_that_of_another(put_back) -> None:
    """A free node tells of it first: the nodes of the job know of it, too."""
    put_back.do(e.ExecutorConnected(node="n2", incarnation="n2-first", address="10.0.0.2", epoch=9))
    assert put_back.job.epoch < 9
    come_back(put_back, "n0", epoch=9)
    assert put_back.job.epoch == 10 + LOST
    put_back.answer(stored=[(40, 9), (20, 1)])
    assert put_back.job.restore.step == 40


def test_a_job_that_had_no_node_goes_on_from_what_it_saved_in_epochs_that_were_lost(life) -> None:
    """It had been seated, and had trained, after the backup was made."""
    for name in ("n0", "n1", "n2"):
        life.node(name)
    life.submit("other", nodes=2)
    life.submit("job", nodes=2, task=STORING)
    assert life.state.jobs["job"].phase is Phase.PENDING
    life.do(e.DriverStarted(term=7))
    come_back(life, "n2", epoch=4)
    come_back(life, "n0", epoch=5)
    life.do(e.StopRequested(job="other"))
    for name in ("n0", "n1"):
        life.do(e.NodeReleased(node=name))
    life.answer("job", stored=[(40, 3)])
    assert life.state.jobs["job"].restore.order == Restore(source="store", step=40, epoch=3)


def test_of_several_epochs_that_were_lost_each_counts(put_back) -> None:
    """In the newest the job had been suspended: nothing of it was saved."""
    come_back(put_back, "n0", epoch=9)
    put_back.answer(stored=[(40, 8), (20, 1)])
    assert put_back.job.restore.order == Restore(source="store", step=40, epoch=8)
    put_back.progress(41)
    put_back.dies(0)
    put_back.answer(stored=[(40, 8), (60, 9), (45, put_back.job.history[-1].epoch)])
    assert put_back.job.restore.step == 45, "what was passed over is no part of the line"


def test_an_epoch_that_was_given_anew_is_not_the_one_of_those_who_come_later(life) -> None:
    """A job made anew got the first epoch, before one came who had followed it, and of whom the
    journal knew nothing."""
    for name in ("n0", "n1"):
        life.node(name)
    life.do(e.NodeAppeared(node="n2"))
    life.do(e.DriverStarted(term=7))
    for name in ("n0", "n1"):
        come_back(life, name, epoch=0)
    life.submit()
    for name in life.job.places:
        life.do(e.NodeAllocated(job="job", node=name))
    assert (life.job.epoch, life.job.seated) == (1, False)
    come_back(life, "n2", epoch=1)
    assert life.job.epoch > 1


def test_what_the_same_epoch_saved_after_the_backup_counts(life) -> None:
    """It was not seated yet, as the journal has it."""
    for name in ("n0", "n1"):
        life.node(name)
    life.submit(task=STORING)
    for name in ("n0", "n1"):
        life.do(e.NodeAllocated(job="job", node=name))
    epoch = life.job.epoch
    assert not life.job.seated
    life.do(e.DriverStarted(term=7))
    for name in ("n0", "n1"):
        comes_with(life, name, epoch=epoch, ahead=0)
    assert life.job.epoch > epoch
    life.answer(stored=[(25, epoch)])
    assert life.job.restore.order == Restore(source="store", step=25, epoch=epoch)


def test_while_somebody_is_away_no_epoch_is_given_that_he_may_have_followed(put_back) -> None:
    """And what it saved is the job's, though nobody ever tells of it: here n0 alone knew."""
    put_back.do(e.NodeEvictRequested(node="n0", reason="it is to be repaired"))
    first = put_back.job.epoch
    assert first == 2 + LOST
    for name in ("n1", "n2"):
        come_back(put_back, name, epoch=1)
    put_back.answer(stored=[(20, 1), (40, 2)])
    assert put_back.job.restore.order == Restore(source="store", step=40, epoch=2)
    put_back.progress(41)
    put_back.dies(0)
    assert put_back.job.epoch == first + 1, "once a term"
    come_back(put_back, "n0", epoch=2)
    assert put_back.job.epoch == first + 1, "it has nothing new to tell"


def test_once_all_are_back_the_next_epoch_is_the_next(put_back) -> None:
    for name in ("n0", "n1", "n2"):
        come_back(put_back, name, epoch=1)
    put_back.dies(0)
    assert put_back.job.epoch == 2
    put_back.silence("n2")
    put_back.answer()
    put_back.dies(0)
    assert put_back.job.epoch == 3, "who goes away now has followed nothing that is not known"


def test_how_far_it_was_is_known_though_epochs_may_be_lost(put_back) -> None:
    put_back.do(e.NodeEvictRequested(node="n0", reason="it is to be repaired"))
    for name in ("n1", "n2"):
        come_back(put_back, name, epoch=1)
    put_back.answer(snapshots=[(30, 1)], stored=[(20, 1)], empty=["n2"])
    assert put_back.job.restore.step == 20
    assert put_back.incident.steps_lost == 10


def test_a_job_that_trains_through_many_terms_notes_once_what_may_be_lost(training) -> None:
    life = training(spare=1, task=STORING)
    life.submit("other", nodes=1)
    life.answer("other")
    for term in (7, 8, 9):
        life.do(e.DriverStarted(term=term))
        come_back(life, "n2", epoch=2)
        life.dies(0, name="other")
        life.answer("other")
    job = life.state.jobs["job"]
    assert [(each.first, each.end) for each in job.history] == [(None, None), (3, None)]
    assert job.history[-1].epoch == life.state.epoch - 1
