"""No job that has a checkpoint in its store goes behind it by itself."""

import pytest

from holdfast.driver.core import events as e
from holdfast.driver.core.state.model import Phase, Timer
from holdfast.driver.people.admission import refuse
from holdfast.protocol.messages import Task

IN_STORE = Task(command=("train",), workdir=".", store_url="file:///store/job")
AGAIN_S = 31.0
"""A moment more than a store is waited for until it is looked at again."""


def dies_and(life, **answer):
    """A rank dies, and every node has lost its memory."""
    life.dies(1, signal=9)
    life.answer(**answer)


def begun_at(life):
    """The step from which ranks run; None while they wait."""
    if not life.job.seated:
        return None
    return life.job.restore.step if life.job.restore else 0


def test_while_the_store_is_looked_through_the_job_waits_and_says_since_when(storing):
    life = storing
    dies_and(life, looking="nothing found so far")
    assert (begun_at(life), life.phase) == (None, Phase.RESTORING)
    assert "nothing found so far" in life.job.waiting
    since = life.job.unsure_s
    epoch = life.job.epoch
    life.wait(until_s=life.now + 600)
    assert begun_at(life) is None
    assert life.job.epoch == epoch, "a new look would begin from nothing"
    life.answer(looking="", stored=[(10, 1)])
    assert begun_at(life) == 10
    assert since is not None
    assert life.job.unsure_s is None


def test_what_was_never_acknowledged_begins_anew_once_the_store_says_that_it_has_nothing(storing):
    life = storing
    dies_and(life, looking="nothing found so far")
    assert begun_at(life) is None
    life.answer()
    assert begun_at(life) == 0


def test_a_first_start_waits_for_no_store(life):
    life.node("n0")
    life.node("n1")
    life.submit(task=IN_STORE)
    life.answer(looking="nothing found so far", store_error="it is away")
    assert begun_at(life) == 0


def test_a_job_without_a_store_waits_for_none(training):
    life = training()
    dies_and(life, looking="the checkpoint agent has not answered", store_error="no agent")
    assert begun_at(life) == 0


def test_memory_that_is_not_behind_waits_for_no_store(storing):
    life = storing
    life.stores(10)
    dies_and(life, looking="nothing found so far", snapshots=[(12, life.job.epoch)])
    assert (begun_at(life), life.job.restore.where) == (12, "memory")


def test_memory_that_is_behind_what_was_stored_waits(storing):
    life, first = storing, storing.job.epoch
    life.stores(20)
    dies_and(life, looking="nothing found so far", snapshots=[(12, first)])
    assert begun_at(life) is None
    life.answer(snapshots=[(12, first)], stored=[(20, first)])
    assert begun_at(life) == 20


def test_a_step_that_is_shown_while_the_look_up_goes_on_may_not_be_the_newest(storing):
    life, first = storing, storing.job.epoch
    life.stores(50)
    dies_and(life, looking="step 70 found so far", stored=[(70, first)])
    assert begun_at(life) is None
    life.answer(stored=[(70, first), (80, first)])
    assert begun_at(life) == 80


@pytest.mark.parametrize("shown", [[], [70]])
def test_a_list_that_lags_behind_what_was_acknowledged_is_looked_at_again(storing, shown):
    life, first = storing, storing.job.epoch
    life.stores(80)
    dies_and(life, stored=[(step, first) for step in shown])
    assert begun_at(life) is None
    assert "step 80 was in its store" in life.job.waiting
    since, epoch = life.job.unsure_s, life.job.epoch
    life.wait(until_s=life.now + AGAIN_S)
    assert life.job.epoch > epoch, "it looks again"
    life.answer(stored=[(step, first) for step in shown])
    assert begun_at(life) is None
    assert life.job.unsure_s == since
    life.wait(until_s=life.now + AGAIN_S)
    life.answer(stored=[(70, first), (80, first)])
    assert begun_at(life) == 80


def test_what_a_look_up_has_shown_is_acknowledged_too(storing):
    life, first = storing, storing.job.epoch
    life.dies(1, signal=9)
    life.answer(stored=[(30, first)])
    life.progress(31)
    dies_and(life)
    assert begun_at(life) is None
    assert "step 30" in life.job.waiting


def test_an_acknowledgement_that_comes_late_counts(storing):
    life, first = storing, storing.job.epoch
    life.dies(1, signal=9)
    life.stores(40, first)
    life.answer(stored=[(30, first)])
    assert begun_at(life) is None


def test_damage_makes_the_job_fall_back_to_the_step_before(storing):
    life, first = storing, storing.job.epoch
    life.stores(70)
    life.stores(80)
    dies_and(life, damaged=[(80, first)])
    assert begun_at(life) is None, "step 70 is not shown yet"
    life.wait(until_s=life.now + AGAIN_S)
    life.answer(damaged=[(80, first)], stored=[(70, first)])
    assert begun_at(life) == 70


def test_where_all_is_damaged_a_person_decides(storing):
    life, first = storing, storing.job.epoch
    life.stores(80)
    dies_and(life, damaged=[(80, first)])
    assert begun_at(life) is None
    assert "damaged" in life.job.waiting


def test_a_person_may_have_it_begin_anew(storing):
    life, first = storing, storing.job.epoch
    life.stores(80)
    dies_and(life, stored=[(70, first)])
    asked = e.ResumeRequested(job="job", from_step=0, by="ann")
    assert refuse(life.state, asked) is None
    life.do(asked)
    assert begun_at(life) == 0
    assert "ann wants job to go on from the beginning" in life.whys[-1]
    assert life.job.points == ()
    epoch = life.job.epoch
    life.progress(81)
    dies_and(life, stored=[(70, first), (80, first)])
    assert begun_at(life) == 0, f"what lies behind epoch {epoch} is another line of training"


def test_a_person_may_have_it_begin_at_an_older_step(storing):
    life, first = storing, storing.job.epoch
    life.stores(80)
    dies_and(life, stored=[(60, first), (70, first)])
    refused = refuse(life.state, e.ResumeRequested(job="job", from_step=75))
    assert refused is not None
    assert "75" in str(refused)
    assert "70, 60" in str(refused)
    life.do(e.ResumeRequested(job="job", from_step=60))
    assert begun_at(life) == 60


def test_a_suspended_job_may_be_told_where_to_go_on(storing):
    life, first = storing, storing.job.epoch
    life.stores(80)
    life.do(e.SuspendRequested(job="job"))
    life.answer(stored=[(80, first)])
    assert life.phase is Phase.SUSPENDED
    for node in life.state.nodes:
        life.do(e.NodeReleased(node=node))
    life.do(e.ResumeRequested(job="job", from_step=0))
    for node in life.job.members:
        life.do(e.NodeAllocated(job="job", node=node))
        life.connect(node, f"{node}-second")
    life.answer(stored=[(80, first)])
    assert begun_at(life) == 0


@pytest.mark.parametrize("stale", [False, True])
def test_a_job_that_has_just_been_let_go_on_may_be_told_where(storing, stale: bool):
    """As on Kubernetes: its object has it go on, and the step comes beside that; `stale`: and then
    what the object wanted before, once more.
    """
    life, first = storing, storing.job.epoch
    life.stores(80)
    life.do(e.SuspendRequested(job="job"))
    life.answer(stored=[(80, first)])
    for node in life.state.nodes:
        life.do(e.NodeReleased(node=node))
    life.do(e.ResumeRequested(job="job"))
    asked = e.ResumeRequested(job="job", from_step=0)
    assert refuse(life.state, asked) is None
    life.do(asked)
    for event in (e.SuspendRequested(job="job"), e.ResumeRequested(job="job")) if stale else ():
        life.do(event)
        for node in life.state.nodes.values():
            life.do(e.NodeReleased(node=node.name))
    for node in life.job.members:
        life.do(e.NodeAllocated(job="job", node=node))
        life.connect(node, f"{node}-second")
    life.answer(stored=[(80, first)])
    assert begun_at(life) == 0


def test_who_trains_is_not_told_where_to_begin(storing):
    refused = refuse(storing.state, e.ResumeRequested(job="job", from_step=0))
    assert refused is not None
    assert refused.code == "not-waiting"
    before = storing.job
    storing.do(e.ResumeRequested(job="job", from_step=0))
    assert storing.job == before


def test_only_as_many_are_remembered_as_the_store_keeps(storing):
    for step in range(10, 100, 10):
        storing.stores(step)
    assert [one.step for one in storing.job.points] == [80, 90]


def test_what_an_epoch_of_another_life_stored_is_not_acknowledged(storing):
    storing.stores(80, epoch=storing.job.epoch + 7)
    assert storing.job.points == ()


def test_a_node_that_is_lost_while_the_job_waits_changes_nothing(training):
    life = training(task=IN_STORE, spare=1)
    life.stores(80)
    dies_and(life)
    since = life.job.unsure_s
    life.lose(life.job.places[1])
    life.wait(until_s=life.now + 1)
    life.answer()
    assert begun_at(life) is None
    assert life.job.unsure_s == since
    assert Timer.STORE in life.job.timers


def test_a_rank_that_refuses_a_checkpoint_is_no_fault_of_the_user_nor_of_its_node(storing):
    life, first = storing, storing.job.epoch
    life.stores(80)
    dies_and(life, stored=[(80, first)])
    strikes = {name: node.record.facts for name, node in life.state.nodes.items()}
    life.dies(2, exception="CheckpointRefused")
    assert [str(each) for each in life.paid] == ["infrastructure"] * 2
    assert {name: node.record.facts for name, node in life.state.nodes.items()} == strikes
    assert life.evicted == []


def test_it_is_known_since_when_the_newest_has_been_stored(storing):
    life = storing
    life.stores(10)
    written_s = life.now
    assert life.job.points[-1].written_s == written_s
    life.wait(until_s=life.now + 5)
    life.stores(10)
    assert life.job.points[-1].written_s == written_s, "it is told again"
    life.stores(20)
    assert life.job.points[-1].written_s == life.now > written_s


def test_when_a_checkpoint_was_written_that_was_only_found_nobody_says(storing):
    life, first = storing, storing.job.epoch
    life.stores(10)
    dies_and(life, stored=[(10, first), (20, first)])
    assert begun_at(life) == 20
    assert life.job.points[-1].written_s is None


# ---------------------------------------------------------------- a look-up that hangs

HANGS = {"looking": "nothing found so far", "store_error": "store: it has not answered for 30 s"}
SILENT = {"looking": "the checkpoint agent has not answered", "agent_silent": "it has not said"}


def passes(life, times: int = 3, **answer) -> None:
    """Time goes by, and all say the same."""
    for _ in range(times):
        life.wait(until_s=life.now + AGAIN_S)
        life.answer(**answer)


@pytest.mark.parametrize("hangs", [HANGS, SILENT], ids=["its store", "its agent"])
def test_a_look_up_that_hangs_on_one_node_is_tried_from_another(training, hangs):
    life = training(spare=1, task=IN_STORE)
    first = life.job.epoch
    life.stores(80)
    dies_and(life, **hangs)
    assert "the store cannot be read" not in life.job.waiting or hangs is HANGS
    passes(life, **hangs)
    assert begun_at(life) is None
    assert life.job.places == ("n2", "n1")
    assert any("n0 cannot tell what the store has" in why for why in life.whys)
    for _ in range(2):
        life.answer(stored=[(80, first)])
    assert begun_at(life) == 80
    assert life.evicted == [], "nothing is proved against it"
    assert life.paid == [] or len(life.paid) == 1, "the death alone is counted"


def test_where_it_hangs_everywhere_the_job_waits_and_does_not_wander(training):
    life = training(spare=5, task=IN_STORE)
    life.stores(80)
    dies_and(life, **HANGS)
    passes(life, 40, **HANGS)
    assert begun_at(life) is None
    assert len(life.moved) == life.policy.look_tries
    assert "step 80 was" in life.job.waiting


def test_without_another_node_a_look_up_that_hangs_is_waited_for(storing):
    life, first = storing, storing.job.epoch
    life.stores(80)
    dies_and(life, **HANGS)
    passes(life, **HANGS)
    assert (begun_at(life), life.job.places) == (None, ("n0", "n1"))
    life.answer(stored=[(80, first)])
    assert begun_at(life) == 80


def test_a_look_up_that_takes_its_time_without_an_error_is_not_moved(training):
    life = training(spare=1, task=IN_STORE)
    life.stores(80)
    dies_and(life, looking="nothing found so far")
    passes(life, 20, looking="nothing found so far")
    assert (begun_at(life), life.job.places) == (None, ("n0", "n1"))
