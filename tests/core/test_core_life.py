"""A job's life without faults: nodes, start, end, suspend, stop, delete, deadlines."""

from holdfast.driver.core import events as e
from holdfast.driver.core.effects import Allocate, Release
from holdfast.driver.core.state.model import Phase


def test_a_job_that_waits_says_who_has_the_nodes_that_it_could_have(life) -> None:
    for number in range(6):
        life.node(f"n{number}")
    life.submit("first", nodes=2)
    life.submit("second", nodes=3)
    life.submit("job", nodes=4)
    has = "second has 3 of them; first has {} of them"
    waits = life.state.jobs["job"].waiting
    assert waits == f"it needs 4 nodes, and 1 is free; {has.format(2)}"
    for node in ("n0", "n5"):
        life.do(e.NodeAppeared(node=node, closed="it is cordoned"))
    waits = life.state.jobs["job"].waiting
    assert waits == f"it needs 4 nodes, and none is free; {has.format(1)}; n5: it is cordoned"


def test_a_job_that_waits_says_why_nodes_that_nobody_has_are_not_for_it(life) -> None:
    for number in range(6):
        life.node(f"n{number}")
    life.do(e.NodeVanished(node="n0"))
    for node in ("n1", "n2"):
        life.do(e.NodeEvictRequested(node=node, reason="a loud fan", by="a person"))
    life.do(e.NodeAppeared(node="n3", closed="it is cordoned"))
    life.do(e.NodeMaintainRequested(node="n4", reason="new kernel", by="a person"))
    life.submit("job", nodes=2)
    first, *others = life.job.waiting.split("; ")
    assert first == "it needs 2 nodes, and 1 is free"
    quarantined = "it is quarantined (a person wants"
    assert others[0] == f"n1: {quarantined} n1 out: a loud fan)"
    assert others[1] == f"n2: {quarantined} n2 out: a loud fan)"
    assert others[2:] == ["n3: it is cordoned", "2 more are not to be had"]


def test_a_job_that_needs_more_nodes_than_there_are_says_that_it_cannot_start(life) -> None:
    life.node("n0")
    life.node("n1")
    life.submit("job", nodes=3)
    waits = "it needs 3 nodes, and only 2 are known: it cannot start until more join"
    assert life.job.waiting == waits


def test_a_job_waits_and_says_why_and_starts_by_itself_when_nodes_come(life) -> None:
    life.node("n0")
    life.submit(nodes=2)
    assert life.phase is Phase.PENDING
    assert (
        life.job.waiting == "it needs 2 nodes, and only 1 is known: it cannot start until more join"
    )
    life.node("n1")
    assert life.phase is Phase.ALLOCATING
    life.do(e.NodeAllocated(job="job", node="n0"))
    life.do(e.NodeAllocated(job="job", node="n1"))
    assert life.phase is Phase.STARTING
    life.answer()
    assert life.phase is Phase.RUNNING


def test_ranks_are_seated_only_when_all_are_quiet_and_the_store_listens(life) -> None:
    life.node("n0")
    life.node("n1")
    life.submit()
    for node in ("n0", "n1"):
        life.do(e.NodeAllocated(job="job", node=node))
    epoch = life.job.epoch
    assert [life.told(node).host_rendezvous for node in ("n0", "n1")] == [True, False]
    assert life.told("n1").seats == ()
    life.do(e.NodeQuiet(job="job", epoch=epoch, node="n0"))
    life.do(e.NodeQuiet(job="job", epoch=epoch, node="n1"))
    assert not life.job.seated
    life.answer()
    desired = life.told("n1")
    assert [(seat.rank, seat.node) for seat in desired.seats] == [
        (0, "n0"), (1, "n0"), (2, "n1"), (3, "n1"),
    ]  # fmt: skip
    assert desired.rendezvous is not None
    assert (desired.attempt, desired.restore) == (1, None)


def test_a_job_whose_ranks_all_end_well_is_done_and_gives_its_nodes_back(training) -> None:
    life = training(standbys=1)
    life.ends_well()
    assert life.phase is Phase.SUCCEEDED
    assert {effect.node for effect in life.ordered(Release)} == {"n0", "n1", "n2"}
    assert life.told("n0").job is None
    assert life.told("n0").forget_job == "job"


def test_a_finished_job_ignores_whatever_comes_later(training) -> None:
    life = training()
    epoch = life.job.epoch
    life.ends_well()
    for late in (
        e.NodeQuiet(job="job", epoch=epoch, node="n0"),
        e.RanksRunning(job="job", epoch=epoch, node="n0"),
        e.ProgressSeen(job="job", epoch=epoch, step=9),
        e.StopRequested(job="job"),
        e.SuspendRequested(job="job"),
    ):
        assert life.do(late).idle
    assert life.phase is Phase.SUCCEEDED


def test_what_belongs_to_an_older_epoch_changes_nothing(training) -> None:
    life = training()
    old = life.job.epoch
    life.dies(3, signal=9)
    for stale in (
        e.NodeQuiet(job="job", epoch=old, node="n0"),
        e.RanksRunning(job="job", epoch=old, node="n0"),
        e.ProgressSeen(job="job", epoch=old, step=99),
    ):
        assert life.do(stale).idle


def test_a_suspended_job_has_no_nodes_and_goes_on_from_the_store(training) -> None:
    life = training()
    first = life.job.epoch
    life.do(e.SuspendRequested(job="job", by="ada"))
    assert life.phase is Phase.SUSPENDING
    assert life.told("n0").stop == "grace"
    life.answer()
    assert life.phase is Phase.SUSPENDED
    assert life.job.members == ()
    life.do(e.NodeReleased(node="n0"))
    life.do(e.NodeReleased(node="n1"))
    life.do(e.ResumeRequested(job="job"))
    life.answer(stored=[(10, first)])
    assert life.phase is Phase.RUNNING
    assert (life.job.restore.where, life.job.restore.step) == ("store", 10)


def test_what_a_node_told_before_a_suspend_says_nothing_of_it_after(training) -> None:
    life = training()
    life.do(e.SuspendRequested(job="job"))
    life.answer()
    assert life.phase is Phase.SUSPENDED
    assert (life.job.tally.quiet, life.job.tally.ending) == (0, 0)


def test_a_suspend_ends_although_a_node_never_becomes_quiet(training) -> None:
    life = training(grace_s=5.0)
    life.do(e.SuspendRequested(job="job"))
    life.silence("n1")
    life.answer(silent=["n1"])
    life.wait(until_s=life.now + 60)
    assert life.phase is Phase.SUSPENDED
    assert life.job.members == ()


def test_a_resume_while_it_is_being_suspended_keeps_its_nodes(training) -> None:
    life = training()
    life.do(e.SuspendRequested(job="job"))
    life.do(e.ResumeRequested(job="job"))
    life.answer()
    assert life.phase is Phase.RUNNING
    assert life.ordered(Release) == []


def test_a_stop_lets_ranks_end_with_grace(training) -> None:
    life = training()
    life.do(e.StopRequested(job="job"))
    assert life.told("n1").stop == "grace"
    life.answer()
    assert life.phase is Phase.STOPPED


def test_a_deleted_job_stops_first_and_is_then_forgotten(training) -> None:
    life = training()
    life.do(e.DeleteRequested(job="job"))
    life.answer()
    assert life.state.jobs == {}


def test_a_job_beyond_its_deadline_fails(training) -> None:
    life = training(deadline_s=100.0)
    life.wait(until_s=101.0)
    assert life.phase is Phase.FAILED
    assert "deadline of 100 s" in life.job.failure.reason


def test_a_finished_job_is_dropped_after_its_time(training) -> None:
    life = training(ttl_s=50.0)
    life.ends_well()
    life.wait(until_s=life.now + 51)
    assert life.state.jobs == {}


def test_a_job_submitted_as_suspended_takes_no_node_until_it_is_resumed(life) -> None:
    life.node("n0")
    life.node("n1")
    life.submit(suspend=True)
    assert life.phase is Phase.SUSPENDED
    assert life.ordered(Allocate) == []
    life.do(e.ResumeRequested(job="job"))
    assert life.phase is Phase.ALLOCATING


def test_an_allocation_that_fails_takes_another_node(life) -> None:
    for k in range(3):
        life.node(f"n{k}")
    life.submit()
    life.do(e.AllocationFailed(job="job", node="n1", why="no such label"))
    assert life.job.places == ("n0", "n2")


def test_a_job_gives_all_back_when_one_node_cannot_be_had(life) -> None:
    life.node("n0")
    life.node("n1")
    life.submit()
    life.do(e.AllocationFailed(job="job", node="n1", why="no such label"))
    assert life.phase is Phase.PENDING
    assert life.job.members == ()


def test_the_outcome_of_an_overtaken_call_is_ignored(life) -> None:
    life.node("n0")
    life.submit("a", nodes=1, ranks_per_node=1)
    cause = life.state.nodes["n0"].told.called
    life.do(e.StopRequested(job="a"))
    life.do(e.NodeReleased(node="n0", cause=life.state.nodes["n0"].told.called))
    life.submit("b", nodes=1, ranks_per_node=1)
    assert life.do(e.NodeReleased(node="n0", cause=cause)).idle
    assert life.state.nodes["n0"].job == "b"


def test_two_jobs_never_hold_half_of_the_cluster_each(life) -> None:
    for k in range(3):
        life.node(f"n{k}")
    life.submit("a", nodes=2)
    life.submit("b", nodes=2)
    assert life.state.jobs["a"].phase is Phase.ALLOCATING
    assert life.state.jobs["b"].members == ()


def test_what_a_suspended_job_had_reached_is_shown_until_its_ranks_start_again(training) -> None:
    life = training()
    reached = e.Reached(step=112, relative=True)
    life.do(e.SuspendRequested(job="job"))
    life.do(e.RanksLeft(job="job", reached=reached))
    life.answer()
    assert (life.phase, life.job.reached) == (Phase.SUSPENDED, reached)
    for node in ("n0", "n1"):
        life.do(e.NodeReleased(node=node))
    life.do(e.ResumeRequested(job="job"))
    assert life.job.reached == reached
    life.answer()
    assert (life.phase, life.job.reached) == (Phase.RUNNING, None)


def test_how_far_a_job_was_is_kept_where_its_deadline_ended_it(training) -> None:
    life = training(deadline_s=100.0)
    reached = e.Reached(step=112, relative=True)
    life.wait(until_s=101.0)
    life.do(e.RanksLeft(job="job", reached=reached))
    assert (life.phase, life.job.reached) == (Phase.FAILED, reached)


def test_ranks_that_are_started_anew_or_told_themselves_leave_no_such_word(training) -> None:
    life = training()
    life.dies(1, code=1)
    assert life.do(e.RanksLeft(job="job", reached=e.Reached(step=112))).idle
    assert life.job.reached is None


def test_how_fast_a_job_was_at_its_best_is_kept_over_its_attempts(training) -> None:
    life = training()
    for best_s in (0.4, 0.2, 0.3):
        life.do(e.FasterSeen(job="job", epoch=life.job.epoch, best_step_s=best_s))
    assert life.job.best_step_s == 0.2
    life.dies(1, code=1)
    life.do(e.FasterSeen(job="job", epoch=life.job.epoch - 1, best_step_s=0.1))
    assert life.job.best_step_s == 0.2
