"""What the state keeps of a job that is over: it is written with each later commit."""

from typing import Any

from holdfast.driver.adapters.rest.views import job_view
from holdfast.driver.core import events as e
from holdfast.driver.core.job.finish import KEPT_EXITS
from holdfast.protocol.messages import RankStatus

RANKS = 200


def test_of_many_ends_the_first_causes_and_the_furthest_are_kept(life: Any) -> None:
    life.node("n0")
    life.submit(nodes=1, ranks_per_node=RANKS)
    life.answer()
    for rank in range(RANKS):
        done = RankStatus(rank=rank, state="exited", exit_code=0, order=rank + 1)
        where = {"job": "job", "epoch": life.job.epoch, "node": "n0"}
        life.do(e.RanksExited(exits=(done,), step=rank, **where))
    assert life.job.finished
    assert life.job.ended == RANKS
    assert len(life.job.exits) <= KEPT_EXITS + 1
    assert max(each.step for each in life.job.exits) == RANKS - 1


def test_of_a_finished_job_nothing_is_kept_that_only_a_living_one_needs(training: Any) -> None:
    life = training(standbys=1, spare=1)
    life.do(e.StopRequested(job="job"))
    life.answer()
    life.wait(until_s=life.now + 300)
    assert life.job.finished
    assert life.job.seats == ()
    assert (life.job.tally.quiet, life.job.tally.ending) == (0, 0)
    assert (life.job.tried, life.job.unfit) == ({}, {})


def test_whoever_reads_of_the_end_that_tells_why_reads_how_many_others_there_were(
    life: Any,
) -> None:
    life.node("n0")
    life.submit(nodes=1, ranks_per_node=RANKS, user=e.Budget(restarts=0, window_s=60))
    life.answer()
    failed = [
        RankStatus(rank=rank, state="exited", exit_code=3, order=rank + 1) for rank in range(RANKS)
    ]
    life.do(e.RanksExited(job="job", epoch=life.job.epoch, node="n0", exits=tuple(failed)))
    life.wait(until_s=life.now + 60)
    assert life.job.finished
    shown = job_view(life.state, life.job, now=life.now, live=None).exit
    assert shown is not None
    assert (shown.rank, shown.code, shown.more) == (0, 3, RANKS - 1)
