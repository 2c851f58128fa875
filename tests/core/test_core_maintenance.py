"""Nodes that are to be free: the job saves first, moves, and nobody is blamed for it."""

import pytest
from msgspec.structs import replace

from holdfast.driver.core import events as e
from holdfast.driver.core.attempt.quiet import quiet_of
from holdfast.driver.core.effects import Allocate, Distrust, Release
from holdfast.driver.core.state.model import Phase, Timer
from holdfast.driver.people.admission import refuse
from holdfast.protocol.faults import Blame, Kind
from holdfast.protocol.messages import Restore, Stored, Task

STORED = Task(command=("train",), workdir=".", store_url="file:///store", store_interval_steps=100)


def maintain(node: str, within_s: float | None = None) -> e.NodeMaintainRequested:
    return e.NodeMaintainRequested(node=node, reason="new kernel", within_s=within_s)


def ending(node: str, within_s: float, *, evicted: bool = False) -> e.ExecutorEnding:
    why = f"pod job-1-1 is {'evicted' if evicted else 'deleted'}"
    return e.ExecutorEnding(job="job", node=node, why=why, within_s=within_s, evicted=evicted)


def quiet(life, node: str) -> e.NodeQuiet:
    return e.NodeQuiet(job="job", epoch=life.job.epoch, node=node)


STAYS = [(6, 1), (7, 1)]
"""What each node that ran has in memory."""
EMPTY = ("n2", "n3", "n4")
"""Nodes that stand by in most tests: they have nothing."""


def moved(life, *, saved: bool = True, empty=EMPTY) -> None:
    """The ranks of epoch 1 end at step 7, it is saved (or not), and the job trains on."""
    life.answer(snapshots=STAYS, stored=[(5, 1)], empty=empty)
    assert life.job.save == Stored(step=7, epoch=1)
    assert {life.told(node).save for node in life.job.places} == {life.job.save}
    stored = [(5, 1), (7, 1)] if saved else [(5, 1)]
    if not saved:
        life.wait(until_s=life.now + life.policy.save_gap_s)
    for _ in range(2):
        life.answer(snapshots=STAYS, stored=stored, empty=empty)
    assert life.phase is Phase.RUNNING


def test_a_job_saves_its_last_step_and_moves_to_its_standby(training) -> None:
    life = training(standbys=1, task=STORED)
    life.do(maintain("n1"))
    assert life.phase is Phase.SUSPENDING
    moved(life)
    assert life.job.places == ("n0", "n2")
    assert life.job.restore.order == Restore(source="store", step=7, epoch=1)
    life.progress(8)
    assert life.incident.kind is Kind.MAINTENANCE
    assert (life.incident.steps_lost, life.incident.open) == (0, False)


def test_nobody_is_blamed_and_nothing_is_spent_for_it(training) -> None:
    life = training(standbys=1, task=STORED)
    life.do(maintain("n1"))
    moved(life)
    node = life.state.nodes["n1"]
    assert (node.quarantined, node.record.facts, node.job) == (False, (), None)
    assert life.incident.blame is Blame.UNKNOWN
    assert life.ordered(Distrust) == []
    assert (life.incident.node, life.incident.evicted, life.paid) == (None, (), [])


def test_a_node_that_is_to_be_free_gets_no_work_until_a_person_gives_it_back(training) -> None:
    life = training(standbys=1, task=STORED)
    life.do(maintain("n1"))
    moved(life)
    life.do(e.NodeReleased(node="n1"))
    assert life.job.standbys == ()
    assert refuse(life.state, e.NodeRestoreRequested(node="n1", reason="done")) is None
    life.do(e.NodeRestoreRequested(node="n1", reason="done"))
    assert life.job.standbys == ("n1",)


def test_the_store_of_rank_0_moves_with_it(training) -> None:
    life = training(standbys=1, task=STORED)
    life.do(maintain("n0"))
    life.answer(snapshots=STAYS, empty=EMPTY)
    life.answer(snapshots=STAYS, stored=[(7, 1)], empty=EMPTY)
    assert life.job.places == ("n2", "n1")
    assert life.job.rendezvous_host == "n2"
    life.answer(snapshots=STAYS, stored=[(7, 1)], empty=EMPTY)
    assert life.job.restore.order == Restore(source="store", step=7, epoch=1)


def test_it_trains_on_while_no_other_node_is_there_and_says_so(training) -> None:
    life = training(task=STORED)
    life.do(maintain("n1"))
    assert life.phase is Phase.RUNNING
    assert "n1 is to be free: it trains on there until there is another node" in life.job.waiting
    life.wait(until_s=life.now + 1_000)
    assert life.phase is Phase.RUNNING


def test_a_job_whose_node_need_not_be_free_any_more_waits_for_nothing(training) -> None:
    life = training(task=STORED)
    life.do(maintain("n1"))
    assert life.job.waiting
    life.do(e.NodeRestoreRequested(node="n1", reason="another day"))
    assert (life.phase, life.job.waiting) == (Phase.RUNNING, "")


def test_a_node_that_nobody_has_is_free_at_once_and_that_is_said(life) -> None:
    life.node("n0")
    life.do(maintain("n0"))
    assert life.whys[-1].endswith("; nothing runs on n0: it is free now")


def test_a_node_that_comes_is_made_warm_before_the_ranks_are_ended(training) -> None:
    life = training(task=STORED)
    life.do(maintain("n1"))
    life.do(e.NodeAppeared(node="n2"))
    assert life.job.standbys == ("n2",)
    life.do(e.NodeAllocated(job="job", node="n2"))
    assert life.phase is Phase.RUNNING
    life.connect("n2", "n2-first")
    life.do(replace(quiet(life, "n2"), warming=True))
    assert life.phase is Phase.RUNNING
    assert life.job.waiting == "n1 is to be free: it trains on there until n2 is ready"
    life.do(quiet(life, "n2"))
    assert life.phase is Phase.SUSPENDING
    moved(life)
    assert life.job.places == ("n0", "n2")


def test_a_standby_that_had_a_job_of_later_orders_is_tested_and_moved_to(life) -> None:
    """It goes on under the order of the job that it had, and what it tells under it counts."""
    for name in ("n0", "n1"):
        life.node(name)
    life.submit(nodes=1, ranks_per_node=1)
    life.answer()
    life.progress(1)
    life.submit("later", nodes=1, ranks_per_node=1)
    life.answer("later")
    life.progress(1, "later")
    life.ends_well("later")
    life.do(e.NodeReleased(node="n1"))
    job = life.job
    life.do(maintain("n0"))
    life.do(e.NodeAllocated(job="job", node="n1"))
    told = life.told("n1")
    assert (told.job, told.epoch > job.epoch) == ("job", True)
    word = e.NodeQuiet(job="job", epoch=told.epoch, node="n1", warming=True)
    life.do(word)
    assert life.phase is Phase.RUNNING, "it is not warm yet"
    assert life.state.nodes["n1"].exam is not None
    life.do(replace(word, warming=False))
    assert life.phase is Phase.SUSPENDING
    life.answer(empty=["n1"])
    life.answer(empty=["n1"])
    assert (life.job.places, life.phase) == (("n1",), Phase.RUNNING)
    assert life.job.epoch > told.epoch, "ranks have an order later than any that their node had"


def test_when_the_time_is_nearly_over_the_step_is_saved_though_no_other_node_is_there(
    training,
) -> None:
    life = training(task=STORED)
    life.do(maintain("n1", within_s=300))
    life.wait(until_s=life.now + 300 - life.policy.save_s - 1)
    assert life.phase is Phase.RUNNING
    life.wait(until_s=life.now + 2)
    assert life.phase is Phase.SUSPENDING
    life.answer(snapshots=[(7, 1)])
    life.answer(snapshots=[(7, 1)], stored=[(7, 1)])
    assert (life.phase, life.job.places) == (Phase.REPLACING, ("n0", ""))
    life.node("n2")
    life.answer(stored=[(7, 1)])
    assert life.job.restore.order == Restore(source="store", step=7, epoch=1)


def test_ranks_that_ended_well_keep_none_on_a_node_whose_time_is_over(training) -> None:
    """Until then the others may end, too, for which there is half of the time to save."""
    life = training(standbys=1, task=STORED)
    life.dies(0, code=0)
    life.do(maintain("n1", within_s=100))
    by_s = life.now + 100
    life.wait(until_s=by_s - life.policy.save_s + 1)
    assert life.phase is Phase.RUNNING
    life.wait(until_s=by_s - life.policy.save_s / 2)
    assert (life.phase, life.job.epoch) == (Phase.SUSPENDING, 2)
    moved(life)
    assert life.job.places == ("n0", "n2")


def test_a_rank_that_failed_is_judged_though_the_time_to_move_has_come(training) -> None:
    life = training(task=STORED)
    life.do(maintain("n1", within_s=life.policy.save_s + 5))
    life.dies(0, judged=False)
    life.tick(after_s=5)
    assert life.incident.kind is not Kind.MAINTENANCE


def test_a_store_that_takes_too_long_does_not_hold_the_move_up_for_ever(training) -> None:
    life = training(standbys=1, task=STORED)
    life.do(maintain("n1"))
    moved(life, saved=False)
    assert life.job.restore.order == Restore(source="store", step=5, epoch=1)
    assert any("did not reach the store in time" in why for why in life.whys)


def test_what_was_acknowledged_is_not_waited_for_though_no_look_shows_it_yet(training) -> None:
    life = training(standbys=1, task=STORED)
    life.do(e.CheckpointStored(job="job", epoch=1, node="n0", step=7))
    life.do(maintain("n1"))
    life.answer(snapshots=STAYS, stored=[(5, 1)], empty=EMPTY)
    assert life.job.save is None
    assert life.job.places == ("n0", "n2"), "it is left"


HANGS = "store: /store has not answered for 30 s"


def test_a_store_that_is_known_to_fail_is_waited_for_a_few_seconds_only(training) -> None:
    life = training(standbys=1, task=STORED)
    life.do(maintain("n1", within_s=300))
    life.answer(snapshots=STAYS, stored=[(5, 1)], store_error=HANGS, empty=EMPTY)
    life.wait(until_s=life.now + life.policy.save_fails_s + 1)
    assert life.job.places == ("n0", "n2"), "it is left"
    told = "step 7 of job is not saved; it goes on from step 5, the last in its store: its store"
    assert [why for why in life.whys if told in why and HANGS in why]
    life.answer(snapshots=STAYS, stored=[(5, 1)], empty=EMPTY)
    assert life.job.restore.order == Restore(source="store", step=5, epoch=1)


def test_a_silent_agent_is_no_store_that_fails_and_is_told_when_the_time_is_over(training) -> None:
    life = training(standbys=1, task=STORED)
    life.do(maintain("n1"))
    silent = "it has not answered to the order to save the last step"
    life.answer(snapshots=STAYS, stored=[(5, 1)], agent_silent=silent, empty=EMPTY)
    life.wait(until_s=life.now + life.policy.save_gap_s - 1)
    assert life.job.places == ("n0", "n1"), "it may be at work all the same"
    life.wait(until_s=life.now + 2)
    assert life.job.places == ("n0", "n2")
    told = f"did not reach the store in time: the checkpoint agent on n0 is silent: {silent}"
    assert [why for why in life.whys if told in why]


def test_an_error_that_is_over_when_the_step_is_saved_loses_nothing(training) -> None:
    life = training(standbys=1, task=STORED)
    life.do(maintain("n1", within_s=300))
    life.answer(snapshots=STAYS, stored=[(5, 1)], store_error=HANGS, empty=EMPTY)
    life.answer(snapshots=STAYS, stored=[(5, 1)], empty=EMPTY)
    life.wait(until_s=life.now + 5 * life.policy.save_fails_s)
    life.answer(snapshots=STAYS, stored=[(5, 1), (7, 1)], empty=EMPTY)
    life.answer(snapshots=STAYS, stored=[(5, 1), (7, 1)], empty=EMPTY)
    assert life.job.restore.order == Restore(source="store", step=7, epoch=1)


def test_what_a_standby_lacks_hinders_no_save(training) -> None:
    life = training(standbys=1, task=STORED)
    life.do(maintain("n1", within_s=300))
    lacks = {"node": "n2", "store_error": "there is no checkpoint agent"}
    life.do(e.NodeQuiet(job="job", epoch=life.job.epoch, snapshots=(), **lacks))
    life.answer(snapshots=STAYS, stored=[(5, 1)], silent=("n2",))
    assert quiet_of(life.state.nodes, life.job)["n2"].store_error
    life.wait(until_s=life.now + 2 * life.policy.save_fails_s)
    assert life.job.places == ("n0", "n1"), "it is still saved"


def test_a_store_that_fails_while_it_saves_is_waited_for_as_long_as_it_may_fail(training) -> None:
    life = training(standbys=1, task=STORED)
    life.do(maintain("n1", within_s=300))
    life.answer(snapshots=STAYS, stored=[(5, 1)], empty=EMPTY)
    life.answer(snapshots=STAYS, stored=[(5, 1)], store_error=HANGS, empty=EMPTY)
    life.wait(until_s=life.now + life.policy.save_fails_s - 1)
    assert life.job.places == ("n0", "n1")
    life.wait(until_s=life.now + 2)
    assert life.job.places == ("n0", "n2")
    assert [why for why in life.whys if "is not saved" in why and "its store fails" in why]


def test_a_store_that_works_again_gets_the_step_in_all_its_time(training) -> None:
    life = training(standbys=1, task=STORED)
    life.do(maintain("n1", within_s=300))
    life.answer(snapshots=STAYS, stored=[(5, 1)], empty=EMPTY)
    life.answer(snapshots=STAYS, stored=[(5, 1)], store_error=HANGS, empty=EMPTY)
    life.answer(snapshots=STAYS, stored=[(5, 1)], empty=EMPTY)
    life.wait(until_s=life.now + 5 * life.policy.save_fails_s)
    assert life.job.places == ("n0", "n1")
    life.answer(snapshots=STAYS, stored=[(5, 1), (7, 1)], empty=EMPTY)
    life.answer(snapshots=STAYS, stored=[(5, 1), (7, 1)], empty=EMPTY)
    assert life.job.restore.order == Restore(source="store", step=7, epoch=1)


def test_a_store_that_is_slow_is_waited_for_while_bytes_reach_it(training) -> None:
    life = training(standbys=1, task=STORED)
    life.do(maintain("n1"))
    for taken in range(4):
        life.answer(snapshots=STAYS, stored=[(5, 1)], saved_bytes=taken * 10**9, empty=EMPTY)
        life.answer(
            snapshots=STAYS,
            stored=[(5, 1)],
            saved_bytes=taken * 10**9,
            store_error=HANGS if taken else "",
            empty=EMPTY,
        )
        life.wait(until_s=life.now + life.policy.save_gap_s - 1)
        assert life.job.places == ("n0", "n1"), "it is still saved"
    for _ in range(2):
        life.answer(snapshots=STAYS, stored=[(5, 1), (7, 1)], empty=EMPTY)
    assert life.job.restore.order == Restore(source="store", step=7, epoch=1)


def test_a_store_of_which_nothing_more_is_heard_is_given_up_after_what_it_took(training) -> None:
    life = training(standbys=1, task=STORED)
    life.do(maintain("n1"))
    life.answer(snapshots=STAYS, stored=[(5, 1)], empty=EMPTY)
    hangs = {"saved_bytes": 10**9, "store_error": HANGS, "empty": EMPTY}
    life.answer(snapshots=STAYS, stored=[(5, 1)], **hangs)
    life.wait(until_s=life.now + life.policy.save_gap_s + 1)
    assert life.job.places == ("n0", "n2")


def test_however_it_gets_on_a_save_has_an_end(training) -> None:
    life = training(standbys=1, task=STORED)
    life.do(maintain("n1"))
    began_s, taken = life.now, 0
    while life.job.places == ("n0", "n1"):
        taken += 10**6
        life.answer(snapshots=STAYS, stored=[(5, 1)], saved_bytes=taken, empty=EMPTY)
        life.wait(until_s=life.now + 60)
    assert life.now - began_s < life.policy.save_longest_s + 90


@pytest.mark.parametrize("within_s", [100, 300])
def test_a_save_that_gets_on_is_not_waited_for_beyond_the_notice(training, within_s) -> None:
    life = training(standbys=1, task=STORED)
    life.do(maintain("n1", within_s=within_s))
    due_s = life.now + within_s
    for taken in range(1, 10):
        life.answer(snapshots=STAYS, stored=[(5, 1)], saved_bytes=taken, empty=EMPTY)
        life.wait(until_s=due_s - 10 + taken)
    life.wait(until_s=due_s + 1)
    assert life.job.places == ("n0", "n2")


def test_a_job_without_a_store_moves_with_what_its_script_saved(training) -> None:
    life = training(standbys=1)
    life.do(maintain("n1"))
    life.answer(snapshots=[(7, 1)])
    life.answer()
    assert life.phase is Phase.RUNNING
    assert life.job.places == ("n0", "n2")


def test_an_evicted_executor_is_moved_before_it_ends_and_its_node_is_free_again(training) -> None:
    life = training(standbys=1, task=STORED)
    life.do(ending("n1", within_s=300))
    moved(life)
    assert life.job.places == ("n0", "n2")
    assert life.state.nodes["n1"].notice is None
    assert life.ordered(Release) == [Release(node="n1")]


def test_an_executor_that_is_deleted_on_an_open_node_comes_back_there(training) -> None:
    life = training(task=STORED)
    life.do(ending("n1", within_s=300))
    assert life.phase is Phase.SUSPENDING
    life.answer(snapshots=[(7, 1)])
    life.answer(snapshots=[(7, 1)], stored=[(7, 1)])
    life.effects.clear()
    life.do(e.NodeReleased(node="n1"))
    assert [effect.node for effect in life.ordered(Allocate)] == ["n1"]


def test_an_executor_that_is_deleted_on_a_node_that_is_closed_does_not_come_back_there(
    training,
) -> None:
    life = training(task=STORED)
    life.do(e.NodeAppeared(node="n1", closed="it is cordoned"))
    life.do(ending("n1", within_s=300))
    assert life.phase is Phase.RUNNING
    assert "it trains on there" in life.job.waiting


def test_a_standby_that_is_on_its_way_is_waited_for_though_the_executor_would_come_back(
    training,
) -> None:
    life = training(task=STORED)
    life.do(e.NodeAppeared(node="n1", notice="new kernel"))
    life.do(e.NodeAppeared(node="n2"))
    assert life.job.standbys == ("n2",)
    life.do(e.NodeAppeared(node="n1"))
    life.do(ending("n1", within_s=300))
    assert life.phase is Phase.RUNNING
    life.do(e.NodeAllocated(job="job", node="n2"))
    life.connect("n2", "n2-first")
    life.do(quiet(life, "n2"))
    assert life.phase is Phase.SUSPENDING


def test_on_a_node_that_is_drained_it_trains_as_long_as_it_can(training) -> None:
    life = training(task=STORED)
    life.do(ending("n1", within_s=300, evicted=True))
    assert life.phase is Phase.RUNNING, "that it is cordoned may be heard later"
    life.do(e.NodeAppeared(node="n1", closed="it is cordoned"))
    assert "it trains on there" in life.job.waiting


def test_what_is_being_saved_is_left_though_a_standby_is_only_on_its_way(training) -> None:
    life = training(task=STORED)
    life.do(ending("n1", within_s=300))
    life.answer(snapshots=STAYS, empty=EMPTY)
    life.do(e.NodeAppeared(node="n2"))
    assert life.job.standbys == ("n2",)
    life.answer(snapshots=STAYS, stored=[(7, 1)], empty=EMPTY)
    assert life.job.places == ("n0", "n2")


def test_what_the_cluster_says_is_taken_back_by_the_cluster(training) -> None:
    life = training(task=STORED)
    life.do(e.NodeAppeared(node="n1", notice="new kernel", within_s=300))
    assert life.job.leaving == ("n1",)
    assert life.do(e.NodeAppeared(node="n1", notice="new kernel", within_s=300)).idle
    life.do(e.NodeAppeared(node="n1"))
    assert (life.job.leaving, life.state.nodes["n1"].notice) == ((), None)
    life.wait(until_s=life.now + 1_000)
    assert life.phase is Phase.RUNNING


def test_a_time_that_is_told_again_a_little_off_is_no_news(training) -> None:
    life = training(task=STORED)
    life.do(ending("n1", within_s=300))
    told_s = life.state.nodes["n1"].notice.by_s
    assert life.do(ending("n1", within_s=298), after_s=1.0).idle
    assert life.state.nodes["n1"].notice.by_s == told_s
    assert not life.do(ending("n1", within_s=200)).idle, "that is another time"
    assert life.state.nodes["n1"].notice.by_s == life.now + 200


def test_a_save_is_not_waited_for_once_the_node_need_not_be_free(training) -> None:
    life = training(standbys=1, task=STORED)
    life.do(e.NodeAppeared(node="n1", notice="new kernel"))
    life.answer(snapshots=STAYS, stored=[(5, 1)], empty=EMPTY)
    life.answer(snapshots=STAYS, stored=[(5, 1)], store_error=HANGS, empty=EMPTY)
    assert {Timer.SAVE, Timer.SAVE_FAILS} <= life.job.timers.keys()
    life.do(e.NodeAppeared(node="n1"))
    assert not {Timer.SAVE, Timer.SAVE_FAILS} & life.job.timers.keys()
    life.answer(snapshots=STAYS, stored=[(5, 1)], empty=EMPTY)
    life.wait(until_s=life.now + 2 * life.policy.save_longest_s)
    assert (life.phase, life.job.places) == (Phase.RUNNING, ("n0", "n1"))
    assert not [why for why in life.whys if "is not saved" in why]


def test_what_a_person_says_is_not_taken_back_by_the_cluster(training) -> None:
    life = training(task=STORED)
    life.do(maintain("n1"))
    life.do(e.NodeAppeared(node="n1"))
    assert life.state.nodes["n1"].notice is not None


def test_a_standby_that_is_to_be_free_goes_at_once(training) -> None:
    life = training(standbys=1, task=STORED)
    life.do(maintain("n2"))
    assert life.job.standbys == ()
    assert life.phase is Phase.RUNNING


def test_ranks_that_die_first_are_recovered_and_the_move_is_part_of_it(training) -> None:
    life = training(standbys=1, task=STORED)
    life.dies(1, signal=9, judged=False)
    life.do(maintain("n1"))
    assert life.phase is Phase.RUNNING, "the death is judged first"
    life.wait(until_s=life.now + 1)
    moved(life)
    assert life.job.places == ("n0", "n2")
    assert life.incident.kind is Kind.RANK_CRASHED


def test_a_node_that_is_lost_while_it_is_left_is_lost(training) -> None:
    life = training(standbys=1, task=STORED)
    life.do(maintain("n1"))
    life.answer(snapshots=STAYS, stored=[(5, 1)], empty=EMPTY)
    life.lose("n1")
    life.answer(snapshots=STAYS, stored=[(5, 1)], empty=EMPTY)
    assert life.phase is Phase.RUNNING
    assert life.job.restore.order == Restore(source="store", step=5, epoch=1)


def test_two_nodes_of_a_job_are_left_together(training) -> None:
    life = training(nodes=3, standbys=2, task=STORED)
    life.do(e.NodeAppeared(node="n1", closed="it is cordoned"))
    life.do(e.NodeAppeared(node="n2", closed="it is cordoned"))
    life.do(ending("n1", within_s=300))
    life.do(ending("n2", within_s=300))
    moved(life, empty=("n3", "n4"))
    assert life.job.places == ("n0", "n3", "n4")
    assert life.state.incident_count == 1


def test_two_nodes_are_left_once_there_are_two_others(training) -> None:
    life = training(nodes=3, task=STORED)
    life.do(maintain("n1"))
    life.do(maintain("n2"))
    life.node("n3")
    life.do(e.NodeAllocated(job="job", node="n3"))
    assert (life.job.standbys, life.phase) == (("n3",), Phase.RUNNING)
    life.node("n4")
    life.do(e.NodeAllocated(job="job", node="n4"))
    for node in ("n3", "n4"):
        life.do(quiet(life, node))
    assert life.phase is Phase.SUSPENDING


@pytest.mark.parametrize("within_s", [None, 300])
def test_a_free_node_is_only_kept_free(life, within_s) -> None:
    life.node("n0")
    life.do(maintain("n0", within_s))
    life.submit(nodes=1)
    assert life.phase is Phase.PENDING
    assert "wants to work on it: new kernel" in life.job.waiting
    assert life.state.incident_count == 0
