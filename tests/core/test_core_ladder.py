"""The recovery ladder: which rung for which fault, and what comes when it did not cure it."""

import pytest

from holdfast.driver.core import events as e
from holdfast.driver.core.effects import Instruct, TakeStacks
from holdfast.driver.core.faults import incidents
from holdfast.driver.core.state.model import Phase
from holdfast.protocol.faults import Evidence, Finding, Kind, Weight


def found(kind: Kind, weight: Weight, **more: object) -> e.Found:
    evidence = (Evidence(source="daemon of n0", text="seen by a test"),)
    finding = Finding(kind=kind, weight=weight, job="job", evidence=evidence, **more)  # type: ignore[arg-type]
    return e.Found(finding=finding)


def hang(life, node: str) -> None:
    life.do(found(Kind.HANG, Weight.SUSPECT, node=node, rank=2, epoch=life.job.epoch, step=7))


FAULTS = {
    "a rank killed by a signal is restarted in place": (
        lambda life: life.dies(2, signal=9),
        1,
        [],
    ),
    "a rank killed for want of memory is restarted in place": (
        lambda life: life.dies(2, code=137),
        1,
        [],
    ),
    "a user's exception is retried in place": (
        lambda life: life.dies(2, exception="ValueError"),
        1,
        [],
    ),
    "an executor that died took its ranks along and is used again": (
        lambda life: (life.silence("n1"), life.connect("n1", "n1-second")),
        1,
        [],
    ),
    "a node that is gone by two sources is replaced without tests": (
        lambda life: life.lose("n1"),
        2,
        ["n1"],
    ),
    "a node found lost is replaced without tests": (
        lambda life: life.do(found(Kind.NODE_LOST, Weight.CONCLUSIVE, node="n1")),
        2,
        ["n1"],
    ),
    "hardware evidence replaces the node without tests": (
        lambda life: life.do(found(Kind.KERNEL_FAULT, Weight.CONCLUSIVE, node="n1")),
        2,
        ["n1"],
    ),
    "a person's wish replaces the node": (
        lambda life: life.do(e.NodeEvictRequested(node="n1", reason="maintenance", by="ada")),
        2,
        ["n1"],
    ),
    "a hang is tested before anybody is accused": (
        lambda life: (hang(life, "n1"), life.wait()),
        3,
        [],
    ),
    "a standstill that nobody can be named for has every node tested": (
        lambda life: (
            life.do(found(Kind.NO_PROGRESS, Weight.SUSPECT, epoch=life.job.epoch)),
            life.wait(),
        ),
        4,
        [],
    ),
}


@pytest.mark.parametrize(("happens", "rung", "evicted"), FAULTS.values(), ids=FAULTS.keys())
def test_the_smallest_rung_that_can_cure_it(training, happens, rung, evicted) -> None:
    life = training(standbys=1)
    old = life.job.epoch
    happens(life)
    assert (life.incident.rung, life.evicted) == (rung, evicted)
    assert life.phase is Phase.SUSPENDING
    assert life.job.epoch > old
    for node in life.job.members:
        assert life.told(node).seats == ()
        assert life.told(node).stop == "kill"


REPORTS = {
    "errors that only count": found(Kind.COUNTERS, Weight.REPORT, node="n0"),
    "a word in a log": found(Kind.LOG_KEYWORD, Weight.REPORT, node="n0"),
    "a complaint about an epoch that is over": found(Kind.HANG, Weight.SUSPECT, node="n0", epoch=0),
}


@pytest.mark.parametrize("event", REPORTS.values(), ids=REPORTS.keys())
def test_training_is_not_touched_by(training, event) -> None:
    life = training()
    life.effects.clear()
    life.do(event)
    assert life.phase is Phase.RUNNING
    assert life.effects == []


def test_the_same_report_again_joins_its_incident(training) -> None:
    life = training()
    for _ in range(5):
        life.do(found(Kind.COUNTERS, Weight.REPORT, node="n0"))
    assert life.state.incident_count == 1
    assert life.incident.faults == 0, "what is only reported is no fault"
    assert len(life.incident.evidence) == 5


def test_a_report_that_was_taken_back_is_new_when_it_comes_again(training) -> None:
    life = training()
    for kind in (Kind.STORE_FAILED, Kind.STORE_FAILED, Kind.STORE_BACK, Kind.STORE_FAILED):
        life.do(found(kind, Weight.REPORT))
    told = [incident.kind for incident in life.state.incidents.values()]
    assert told == [Kind.STORE_FAILED, Kind.STORE_BACK, Kind.STORE_FAILED]
    assert list(incidents.standing(life.state.incidents.values(), life.job)) == [Kind.STORE_FAILED]


def test_a_standby_takes_the_place_and_ranks_of_the_lost_node(training) -> None:
    life = training(nodes=3, standbys=1, spare=1)
    life.lose("n1")
    assert life.job.places == ("n0", "n3", "n2")
    assert life.job.standbys == ("n4",)
    life.answer()
    life.answer()
    assert life.phase is Phase.RUNNING
    assert [seat.node for seat in life.job.seats if seat.rank in (2, 3)] == ["n3", "n3"]


def test_nodes_are_swapped_in_the_same_breath_as_ranks_are_ended(training) -> None:
    life = training(standbys=1)
    before = life.state.sequence
    life.do(e.NodeVanished(node="n0"))
    life.effects.clear()
    life.do(e.ExecutorDisconnected(node="n0", incarnation="n0-first"))
    orders = {f.desired.node: f.desired for f in life.effects if isinstance(f, Instruct)}
    assert orders["n2"].host_rendezvous
    assert orders["n1"].epoch == orders["n2"].epoch == life.job.epoch
    assert orders["n0"].job is None
    assert life.state.sequence == before + 2


def test_the_first_death_is_the_cause_and_its_echoes_are_not(training) -> None:
    life = training()
    life.dies(0, echo=True, exception="RuntimeError", judged=False)
    life.dies(3, signal=11, judged=False)
    life.dies(1, exception="ConnectionError", echo=True, judged=False)
    life.wait(until_s=life.now + 0.1)
    assert (life.incident.rank, life.incident.node) == (3, "n1")
    assert life.incident.summary == "rank 3 on n1 died of SIGSEGV"
    assert life.state.incident_count == 1


def test_echoes_wait_longer_for_the_death_that_explains_them(training) -> None:
    life = training()
    life.dies(0, echo=True, exception="RuntimeError", judged=False)
    life.wait(until_s=life.now + 0.5)
    assert life.phase is Phase.RUNNING
    life.lose("n1")
    assert life.incident.kind is Kind.NODE_LOST
    assert life.incident.node == "n1"


def test_echoes_alone_are_a_restart_in_place(training) -> None:
    life = training()
    life.dies(0, echo=True, exception="RuntimeError")
    assert life.phase is Phase.SUSPENDING
    assert life.incident.rung == 1
    assert life.evicted == []


def test_the_same_crash_climbs_the_ladder_to_its_end(training) -> None:
    life = training(nodes=3)
    rungs = []
    for _ in range(5):
        life.dies(1, signal=11)
        rungs.append(life.incident.rung)
        if life.phase is Phase.FAILED:
            break
        _get_back(life)
    assert rungs == [1, 1, 3, 3, 6]
    assert life.phase is Phase.FAILED
    assert "its node passed its tests" in life.job.failure.reason
    assert life.evicted == []
    assert life.state.incident_count == 1


def _get_back(life) -> None:
    """Answer everything until it runs; tests find nothing."""
    life.answer()
    if life.phase is Phase.DIAGNOSING:
        life.tests_end()
        life.answer()
    assert life.phase is Phase.RUNNING


def test_a_node_that_is_the_root_again_and_again_becomes_a_suspect(training) -> None:
    life = training(nodes=3)
    for step in (2, 3, 4):
        life.dies(2, signal=9)
        life.answer()
        life.progress(step)
    life.dies(2, signal=9)
    assert life.incident.rung == 3
    assert life.job.suspects == ("n1",)


def test_stacks_are_taken_before_ranks_that_hang_are_ended(training) -> None:
    life = training()
    hang(life, "n1")
    order = life.ordered(TakeStacks)[-1]
    assert order.ranks["n1"] == (2,)
    assert life.phase is Phase.RUNNING
    life.do(e.StacksTaken(job="job", incident=order.incident, stacks={2: "in read()"}))
    assert life.phase is Phase.SUSPENDING
    assert life.incident.stacks == {2: "in read()"}
    assert life.incident.faults == 1


def test_where_nobody_is_suspected_stacks_of_more_ranks_are_taken(training) -> None:
    life = training()
    life.do(found(Kind.NO_PROGRESS, Weight.RESTART, epoch=life.job.epoch, step=7))
    order = life.ordered(TakeStacks)[-1]
    assert order.ranks["n0"] == (0, 1)
    assert order.ranks["n1"] == (2, 3)


@pytest.fixture
def accusing(training):
    """n1 is suspected and tested beside others, of which n2 has failed; nobody had accused that."""
    life = training(nodes=4, standbys=1)
    hang(life, "n1")
    life.wait()
    life.answer()
    assert life.phase is Phase.DIAGNOSING
    assert "n1" in life.state.exams[life.job.exam].orders
    life.tests_end(bad="n2")
    return life


def test_who_was_not_accused_is_tested_once_more_beside_others(accusing) -> None:
    life = accusing
    assert life.evicted == []
    exam = life.state.exams[life.job.exam]
    assert (exam.suspects, exam.second) == (("n2",), True)
    assert "n2 failed, and nothing else speaks against it" in life.whys[-1]
    life.tests_end()
    assert life.evicted == []
    life.answer()
    assert life.phase is Phase.RUNNING


def test_the_accused_is_evicted_at_its_first_failure(training) -> None:
    life = training(nodes=4, standbys=1)
    hang(life, "n1")
    life.wait()
    life.answer()
    life.tests_end(bad="n1")
    assert life.evicted == ["n1"]


def test_the_tests_evict_the_bad_node_and_spare_the_suspect(accusing) -> None:
    life = accusing
    life.tests_end(bad="n2")
    assert life.evicted == ["n2"]
    assert life.job.places == ("n0", "n1", "n4", "n3")
    life.answer()
    assert life.phase is Phase.RUNNING
    assert life.incident.diagnosed_s is not None


def test_tests_that_hang_end_by_their_deadline_and_accuse_nobody(training) -> None:
    life = training(nodes=4, diagnose_s=30.0)
    hang(life, "n1")
    life.wait()
    life.answer()
    life.wait(until_s=life.now + 31)
    assert life.job.exam is None
    assert life.evicted == []
    life.answer()
    assert life.phase is Phase.RUNNING


def test_a_second_fault_in_a_recovery_belongs_to_its_incident(training) -> None:
    life = training(nodes=3, standbys=1)
    life.dies(1, signal=9)
    life.lose("n2")
    assert life.state.incident_count == 1
    assert life.incident.faults == 2
    life.answer()
    life.answer()
    assert life.phase is Phase.RUNNING
    life.progress(2)
    assert life.incident.closed_s is not None


def test_ranks_that_cannot_be_ended_cost_their_node(training) -> None:
    life = training(standbys=1)
    life.dies(1, signal=9)
    life.answer(silent=["n1"])
    life.wait(until_s=life.now + life.policy.quiet_s)
    assert life.evicted == ["n1"]
    assert life.incident.kind is Kind.RANK_CRASHED
    life.answer()
    assert life.phase is Phase.RUNNING


def test_a_store_that_does_not_listen_is_tried_again_then_suspected(training) -> None:
    life = training(nodes=3)
    life.dies(1, signal=9)
    for _ in range(6):
        epoch = life.job.epoch
        for node in life.job.nodes:
            life.do(e.NodeQuiet(job="job", epoch=epoch, node=node))
        if life.phase is Phase.DIAGNOSING:
            break
        life.wait(until_s=life.now + life.policy.store_s + 1)
    assert life.phase is Phase.DIAGNOSING
    assert life.job.suspects == ("n0",)


def test_a_store_that_waits_for_an_import_is_not_late_before_that_is_over(life) -> None:
    life.node("n0")
    life.node("n1")
    life.submit()
    for node in life.job.nodes:
        life.do(e.NodeAllocated(job="job", node=node))

    def quiet(preparing: str) -> None:
        for node in life.job.nodes:
            told = preparing if node == life.job.host else ""
            life.do(e.NodeQuiet(job="job", epoch=life.job.epoch, node=node, preparing=told))

    epoch = life.job.epoch
    quiet("it imports torch")
    assert life.job.waiting == "n0 is not ready yet: it imports torch"
    life.wait(until_s=life.now + 20 * life.policy.store_s)
    assert (life.job.epoch, life.state.incidents) == (epoch, {})
    quiet("")
    life.wait(until_s=life.now + life.policy.store_s - 1)
    assert life.job.epoch == epoch, "from now on it has its time"
    life.wait(until_s=life.now + 2)
    assert life.job.epoch > epoch


def test_orders_that_an_executor_refuses_are_given_again_in_a_newer_epoch(training) -> None:
    life = training()
    old = life.job.epoch
    generation = life.state.nodes["n1"].told.generation
    life.do(e.DesiredRefused(node="n1", generation=generation, why="older epoch"))
    assert life.job.epoch > old
    assert life.phase is Phase.SUSPENDING
