"""A job that is stopped or suspended has its last step in the store before its nodes forget it."""

import pytest
from msgspec.structs import replace
from suspects import STORING

from holdfast.driver.core import events as e
from holdfast.driver.core.effects import Allocate, Instruct
from holdfast.driver.core.job.finish import KEPT_EXITS
from holdfast.driver.core.state.model import Phase, Timer, Wanted
from holdfast.protocol.messages import RankStatus, Stored

ENDS = {e.StopRequested: Phase.STOPPED, e.SuspendRequested: Phase.SUSPENDED}


@pytest.fixture(params=ENDS, ids=["stop", "suspend"])
def ending(request, storing):
    """Ranks that got to step 17, asked to end; their nodes have 17 in memory, the store has 10."""
    life = storing
    life.progress(17)
    life.do(request.param(job="job", by="ada"))
    life.answer(snapshots=[(17, 1)], stored=[(10, 1)])
    life.end = ENDS[request.param]
    return life


def test_it_is_written_and_then_the_job_ends(ending):
    assert ending.phase is Phase.SUSPENDING
    assert ending.told("n0").save == Stored(step=17, epoch=1)
    ending.answer(snapshots=[(17, 1)], stored=[(17, 1), (10, 1)])
    assert ending.phase is ending.end
    assert ending.ordered(Instruct)


def test_a_store_that_fails_is_not_waited_for(ending):
    ending.answer(snapshots=[(17, 1)], stored=[(10, 1)], store_error="it is away")
    assert ending.phase is Phase.SUSPENDING
    ending.wait(until_s=ending.now + 60)
    assert ending.phase is ending.end


@pytest.mark.parametrize("kind", ENDS, ids=["stop", "suspend"])
def test_what_the_store_has_is_not_written_again(storing, kind):
    life = storing
    life.do(kind(job="job", by="ada"))
    life.answer(snapshots=[(10, 1)], stored=[(10, 1)])
    assert life.phase is ENDS[kind]


def test_a_job_that_is_to_be_deleted_saves_nothing(storing):
    storing.progress(17)
    storing.do(e.DeleteRequested(job="job", by="ada"))
    storing.answer(snapshots=[(17, 1)], stored=[(10, 1)])
    assert "job" not in storing.state.jobs


# ---------------------------------------------------------------- jobs that are over


def succeeds(life):
    life.ends_well(sealed=True)


def fails(life):
    """No restart is left."""
    life.dies(0, exception="ValueError", sealed=True)


def is_late(life):
    """Its deadline passes while its ranks train."""
    life.wait(until_s=life.job.submitted_s + 1_000)


OVER = {succeeds: Phase.SUCCEEDED, fails: Phase.FAILED, is_late: Phase.FAILED}


@pytest.fixture(params=OVER, ids=lambda each: each.__name__)
def over(request, training):
    """Ranks that got to step 17 and are over; the store has 10."""
    none = e.Budget(restarts=0, window_s=3_600)
    life = training(task=STORING, deadline_s=1_000.0, user=none)
    life.progress(17)
    request.param(life)
    life.end = OVER[request.param]
    return life


def test_a_job_that_is_over_saves_first(over):
    assert over.phase is Phase.SUSPENDING
    over.answer(snapshots=[(17, 1)], stored=[(10, 1)])
    assert over.told("n1").save == Stored(step=17, epoch=1)
    over.answer(snapshots=[(17, 1)], stored=[(17, 1), (10, 1)])
    assert over.phase is over.end
    assert over.job.places == ()
    assert over.job.save is None


def test_it_keeps_how_its_ranks_ended(storing):
    storing.ends_well(sealed=True)
    storing.answer(snapshots=[(17, 1)], stored=[(17, 1)])
    assert storing.phase is Phase.SUCCEEDED
    assert [each.status.rank for each in storing.job.exits] == [0, 1, 2, 3]


def test_many_ends_are_counted_though_few_are_kept(training):
    life = training(task=STORING, nodes=10)
    life.ends_well(sealed=True)
    life.answer(snapshots=[(17, 1)], stored=[(17, 1)])
    assert life.phase is Phase.SUCCEEDED
    assert life.job.ended == 20


def test_of_many_failures_those_that_tell_why_and_the_furthest_are_kept_once(training):
    none = e.Budget(restarts=0, window_s=3_600)
    life = training(task=STORING, nodes=1, ranks_per_node=20, user=none)
    bad = [RankStatus(rank=k, state="exited", exit_code=1, order=k + 1) for k in range(19)]
    last = RankStatus(rank=19, state="exited", exit_code=0, order=20, step=17, sealed=True)
    where = {"job": "job", "epoch": life.job.epoch, "node": "n0"}
    life.do(e.RanksExited(**where, exits=tuple(bad)))
    life.do(e.RanksExited(**where, exits=(last,), step=17))
    life.wait(until_s=life.now + 5)
    life.answer(snapshots=[(17, 1)], stored=[(17, 1)])
    assert life.phase is Phase.FAILED
    assert (len(life.job.exits), life.job.ended) == (KEPT_EXITS + 1, 20)


@pytest.mark.parametrize("error", ["it is away", ""], ids=["fails", "hangs"])
def test_its_store_does_not_hold_it_for_ever(over, error):
    over.answer(snapshots=[(17, 1)], stored=[(10, 1)], store_error=error)
    over.wait(until_s=over.now + over.job.plan.grace_s + 21)
    assert over.phase is over.end
    assert over.job.save == Stored(step=17, epoch=1), "people are told"
    why = "step 17 of job is not saved; step 10 is the last in its store"
    assert any(why in each and error in each for each in over.whys)


def test_nothing_is_waited_for_where_no_rank_keeps_snapshots(storing):
    storing.ends_well()
    assert storing.phase is Phase.SUCCEEDED


def test_nothing_is_waited_for_without_a_store(training):
    life = training()
    life.ends_well(sealed=True)
    assert life.phase is Phase.SUCCEEDED


def test_a_node_that_is_gone_is_not_waited_for(over):
    over.lose("n1")
    over.answer(snapshots=[(17, 1)], stored=[(10, 1)], silent=["n1"])
    over.wait(until_s=over.now + 60)
    assert over.phase is over.end


def test_a_node_that_is_not_heard_is_left_and_nobody_blamed(over):
    over.silence("n1")
    over.answer(snapshots=[(17, 1)], stored=[(10, 1)], silent=["n1"])
    over.wait(until_s=over.now + 60)
    assert over.phase is over.end
    assert over.evicted == []


def test_a_node_that_falls_silent_while_it_saves_is_no_fault(over):
    over.answer(snapshots=[(17, 1)], stored=[(10, 1)])
    over.silence("n1")
    over.wait(until_s=over.now + over.policy.reconnect_s + 5)
    assert over.phase is Phase.SUSPENDING
    assert (over.evicted, over.job.places) == ([], ("n0", "n1"))


def test_a_step_that_no_node_has_any_more_is_told(storing):
    """As where a driver is killed whose nodes are on its machine, and end with it."""
    storing.ends_well(sealed=True)
    storing.answer(stored=[(10, 1)])
    assert storing.phase is Phase.SUCCEEDED
    told = "what ranks of job had in memory is gone from n0, n1; step 10 is the last in its store"
    assert any(told in each for each in storing.whys)


def test_a_step_that_is_lost_while_it_is_saved_is_told(over):
    over.answer(snapshots=[(17, 1)], stored=[(10, 1)])
    over.connect("n1", "n1-second")
    over.answer(snapshots=[(17, 1)], stored=[(10, 1)], empty=["n1"])
    assert over.phase is over.end
    assert over.job.save == Stored(step=17, epoch=1), "people are told"
    told = "step 17 of job is not saved; step 10 is the last in its store: it is in no node's"
    assert any(told in each for each in over.whys)


def test_no_other_node_is_taken_for_one_that_is_lost(training):
    life = training(task=STORING, spare=1)
    life.ends_well(sealed=True)
    asked = len(life.ordered(Allocate))
    life.lose("n1")
    life.answer(snapshots=[(17, 1)], silent=["n1"])
    assert life.phase is Phase.SUCCEEDED
    assert len(life.ordered(Allocate)) == asked


def test_who_is_evicted_by_a_person_is_left_once_the_step_is_saved(over):
    over.do(e.NodeEvictRequested(node="n1", by="ada", reason="smoke"))
    assert over.phase is Phase.SUSPENDING
    over.answer(snapshots=[(17, 1)], stored=[(10, 1)])
    assert over.told("n1").save == Stored(step=17, epoch=1)
    over.answer(snapshots=[(17, 1)], stored=[(17, 1), (10, 1)])
    assert over.phase is over.end
    assert over.evicted == ["n1"]


def test_where_it_is_parked_and_stopped_it_is_what_it_was(over):
    parked = replace(over.job, parked="a defect of ours")
    over.state = replace(over.state, jobs={"job": parked})
    over.do(e.StopRequested(job="job", by="ada"))
    assert over.phase is over.end


def test_how_far_it_was_when_its_ranks_were_ended_is_kept(training):
    life = training(task=STORING, deadline_s=100.0)
    life.wait(until_s=life.job.submitted_s + 101)
    life.do(e.RanksLeft(job="job", reached=e.Reached(step=18)))
    assert life.job.reached == e.Reached(step=18)


def test_an_executor_that_comes_back_still_has_the_step(over):
    over.answer(snapshots=[(17, 1)], stored=[(10, 1)])
    over.connect("n1", "n1-second")
    assert over.phase is Phase.SUSPENDING
    over.answer(snapshots=[(17, 1)], stored=[(10, 1)])
    assert over.phase is Phase.SUSPENDING
    over.answer(snapshots=[(17, 1)], stored=[(17, 1), (10, 1)])
    assert over.phase is over.end


@pytest.mark.parametrize(
    "asked",
    [e.SuspendRequested, e.ResumeRequested, e.StopRequested],
    ids=["suspend", "resume", "stop"],
)
def test_nobody_makes_it_something_else(over, asked):
    over.answer(snapshots=[(17, 1)], stored=[(10, 1)])
    over.do(asked(job="job", by="ada"))
    assert over.phase is Phase.SUSPENDING
    assert over.job.wanted is not Wanted.SUSPEND
    over.answer(snapshots=[(17, 1)], stored=[(17, 1), (10, 1)])
    assert over.phase is over.end


def test_who_deletes_it_wants_nothing_of_it(over):
    over.do(e.DeleteRequested(job="job", by="ada"))
    over.answer(snapshots=[(17, 1)], stored=[(10, 1)])
    assert "job" not in over.state.jobs


def test_a_deadline_fails_no_job_that_is_done(training):
    life = training(task=STORING, deadline_s=10.0)
    life.ends_well(sealed=True)
    life.answer(snapshots=[(17, 1)], stored=[(10, 1)])
    life.wait(until_s=life.job.submitted_s + 11)
    assert life.phase is Phase.SUSPENDING
    life.answer(snapshots=[(17, 1)], stored=[(17, 1), (10, 1)])
    assert life.phase is Phase.SUCCEEDED


def test_a_deadline_bounds_what_a_suspended_job_waits_for_its_store(training):
    life = training(task=STORING, deadline_s=100.0)
    life.do(e.SuspendRequested(job="job", by="ada"))
    life.answer(snapshots=[(17, 1)], stored=[(10, 1)])
    life.wait(until_s=life.job.submitted_s + 101)
    assert life.phase is Phase.SUSPENDING
    life.do(e.ResumeRequested(job="job", by="ada", from_step=10))
    assert (life.job.wanted, life.job.granted) == (Wanted.SUSPEND, None)
    life.wait(until_s=life.now + life.job.plan.grace_s + 21)
    assert life.phase is Phase.FAILED


def test_a_deadline_fails_no_job_that_somebody_stops(training):
    life = training(task=STORING, deadline_s=100.0)
    life.progress(17)
    life.wait(until_s=life.job.submitted_s + 95)
    life.do(e.StopRequested(job="job", by="ada"))
    life.answer(snapshots=[(17, 1)], stored=[(10, 1)])
    given_up_s = life.now + life.job.plan.grace_s + 1
    life.wait(until_s=life.job.submitted_s + 101)
    assert (life.phase, life.job.failure) == (Phase.SUSPENDING, None)
    life.wait(until_s=given_up_s)
    assert life.phase is Phase.STOPPED


def test_of_a_suspended_job_that_its_deadline_ends_nobody_is_told_that_it_goes_on(training):
    life = training(task=STORING, deadline_s=100.0)
    life.progress(17)
    life.do(e.SuspendRequested(job="job", by="ada"))
    life.answer(snapshots=[(17, 1)], stored=[(10, 1)])
    life.wait(until_s=life.job.submitted_s + 101)
    life.wait(until_s=life.now + life.job.plan.grace_s + 21)
    assert life.phase is Phase.FAILED
    told = "step 17 of job is not saved; step 10 is the last in its store"
    assert any(told in each for each in life.whys)


def test_a_notice_that_is_taken_back_does_not_end_the_saving(over):
    over.answer(snapshots=[(17, 1)], stored=[(10, 1)])
    over.do(e.NodeMaintainRequested(node="n1", by="ada", reason="a fan", within_s=None))
    over.do(e.NodeRestoreRequested(node="n1", by="ada", reason="done"))
    assert over.phase is Phase.SUSPENDING
    over.answer(snapshots=[(17, 1)], stored=[(17, 1), (10, 1)])
    assert over.phase is over.end
    assert not any("is not saved" in each for each in over.whys)


def test_a_short_grace_leaves_it_20_s_all_the_same(training):
    life = training(task=STORING, grace_s=1.0)
    life.do(e.StopRequested(job="job", by="ada"))
    life.answer(snapshots=[(17, 1)], stored=[(10, 1)])
    assert life.job.waiting == "its last step, 17, goes to the store"
    life.wait(until_s=life.now + life.policy.quiet_s - 1)
    assert (life.phase, life.policy.quiet_s) == (Phase.SUSPENDING, 20.0)


def test_nothing_is_waited_for_where_the_store_gets_no_checkpoints(training):
    life = training(task=replace(STORING, store_interval_steps=0))
    life.ends_well(sealed=True)
    assert life.phase is Phase.SUCCEEDED


def test_one_rank_that_keeps_snapshots_is_enough(storing):
    last = [RankStatus(rank=k, state="exited", exit_code=0, sealed=k == 0) for k in range(4)]
    where = {"job": "job", "epoch": storing.job.epoch}
    storing.do(e.RanksExited(**where, node="n0", exits=tuple(last[:2])))
    storing.do(e.RanksExited(**where, node="n1", exits=tuple(last[2:])))
    assert storing.phase is Phase.SUSPENDING


def test_a_job_that_has_ended_waits_for_no_time(over):
    over.answer(snapshots=[(17, 1)], stored=[(17, 1)])
    assert (over.phase, dict(over.job.timers)) == (over.end, {})


def test_a_suspended_job_keeps_its_deadline(training):
    life = training(task=STORING, deadline_s=1_000.0)
    life.do(e.SuspendRequested(job="job", by="ada"))
    life.answer(snapshots=[(10, 1)], stored=[(10, 1)])
    assert (life.phase, set(life.job.timers)) == (Phase.SUSPENDED, {Timer.DEADLINE})
