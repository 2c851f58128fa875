"""What befalls the nodes of a job that is parked: nothing of it is lost, and the job goes on."""

from collections.abc import Callable
from typing import Any

import pytest

from holdfast.driver.batch.deadlines import MOST_TURNS, due, next_deadline
from holdfast.driver.core import events as e
from holdfast.driver.core.effects import Instruct
from holdfast.driver.core.handlers import exam_callers, parking
from holdfast.driver.core.handlers.parking import FIRST_S
from holdfast.driver.core.job.epochs import LOST
from holdfast.driver.core.state.model import Phase, Purpose, State
from holdfast.driver.core.turn import Turn
from holdfast.driver.journal.draft import Draft
from holdfast.protocol.faults import Finding, Kind, Weight
from holdfast.protocol.messages import DiagnosticResult


def park(life: Any, job: str = "job") -> None:
    turn = Turn(life.state, life.now, life.policy)
    parking.park(turn, job, "planted")
    life.state = turn.close().state


def comes_back(life: Any) -> None:
    life.wait(until_s=life.now + FIRST_S + 1.0)
    assert not life.job.parked


def recovers(life: Any) -> None:
    """Its executors do what they are told, until it trains and ends."""
    for _ in range(3):
        life.answer()
    assert not any(life.state.nodes[node].quarantined for node in life.job.places)
    seats = tuple(dict.fromkeys(seat.node for seat in life.job.seats))
    assert (life.phase, life.job.places) == (Phase.RUNNING, seats)
    for node in seats:
        assert life.told(node).seats == life.job.seats
        assert life.told(node).epoch == life.job.epoch
    life.ends_well()
    assert life.phase is Phase.SUCCEEDED


def evicted_by_a_finding(node: str) -> e.AnyEvent:
    return e.Found(
        finding=Finding(
            kind=Kind.NODE_PROBLEM,
            weight=Weight.CONCLUSIVE,
            node=node,
            summary="its GPU fell off the bus",
        )
    )


def evicted_by_a_person(node: str) -> e.AnyEvent:
    return e.NodeEvictRequested(node=node, reason="it smokes")


def preempted(node: str) -> e.AnyEvent:
    return e.ExecutorEnded(job="job", node=node, why="preempted")


TAKEN = (evicted_by_a_finding, evicted_by_a_person, preempted)


# ---------------------------------------------------------------- a node is taken


@pytest.mark.parametrize("standbys", [0, 1])
@pytest.mark.parametrize("nodes", [1, 2])
@pytest.mark.parametrize("taken", TAKEN)
def test_a_place_whose_node_was_taken_is_filled_when_the_job_comes_back(
    training: Any, taken: Callable[[str], e.AnyEvent], nodes: int, standbys: int
) -> None:
    life = training(nodes=nodes, standbys=standbys, spare=2)
    park(life)
    life.do(taken("n0"), after_s=1.0)
    life.do(e.NodeReleased(node="n0"))
    life.do(e.NodeAppeared(node="n9"))
    assert life.job.places[0] in ("", "n0"), "nobody takes it over meanwhile"
    comes_back(life)
    recovers(life)


@pytest.mark.parametrize("taken", TAKEN)
@pytest.mark.parametrize("phase", [Phase.SUSPENDING, Phase.STARTING, Phase.ALLOCATING])
def test_so_it_is_where_no_ranks_ran_yet(
    life: Any, taken: Callable[[str], e.AnyEvent], phase: Phase
) -> None:
    for name in ("n0", "n1", "n2", "n3"):
        life.node(name)
    life.submit()
    life.do(e.NodeAllocated(job="job", node="n0"))
    if phase is not Phase.ALLOCATING:
        life.do(e.NodeAllocated(job="job", node="n1"))
    if phase is Phase.SUSPENDING:
        life.answer()
        life.dies(0)
    assert life.phase is phase
    park(life)
    life.do(taken("n0"), after_s=1.0)
    life.do(e.NodeReleased(node="n0"))
    comes_back(life)
    recovers(life)


def test_what_a_person_evicts_is_quarantined_at_once(training: Any) -> None:
    life = training(spare=1)
    park(life)
    life.do(evicted_by_a_person("n0"))
    assert life.state.nodes["n0"].quarantine.by_person
    assert life.state.incidents[1].outcome == "job is parked"


def test_a_node_whose_executor_the_cluster_ended_is_not_taken_for_silent(training: Any) -> None:
    life = training(spare=1)
    park(life)
    life.do(preempted("n1"), after_s=5.0)
    life.silence("n1")
    comes_back(life)
    life.answer()
    life.wait(until_s=life.now + 2 * life.policy.reconnect_s)
    assert life.evicted == []
    assert life.job.places == ("n0", "n2")


def test_an_executor_that_died_is_not_forgotten_where_the_job_came_back_in_vain(
    training: Any,
) -> None:
    life = training()
    park(life)
    life.connect("n1", "n1-second")
    life.now += FIRST_S
    park(life)  # the defect was met again as it was looked at
    life.wait(until_s=life.now + 2 * FIRST_S + 1.0)
    assert life.incident.summary == "job lost its ranks on n1 while it was parked"
    recovers(life)


def test_whoever_is_still_awaited_has_so_much_longer(life: Any) -> None:
    for name in ("n0", "n1"):
        life.do(e.NodeAppeared(node=name))
    life.submit()
    life.do(e.NodeAllocated(job="job", node="n0"))
    before = {name: life.state.nodes[name].holding.by_s for name in ("n0", "n1")}
    park(life)
    parked_s = life.now
    life.wait(until_s=life.now + FIRST_S)
    after = {name: life.state.nodes[name].holding.by_s for name in ("n0", "n1")}
    assert not life.job.parked
    assert after == {name: pytest.approx(at + life.now - parked_s) for name, at in before.items()}


# ---------------------------------------------------------------- the journal is put back


def follows_later(life: Any, node: str) -> None:
    """Its executor has followed an order of epoch 7, of which the journal knows nothing."""
    known = life.state.nodes[node]
    life.do(
        e.ExecutorConnected(
            node=node, incarnation=known.incarnation, address=known.address, generation=30, epoch=7
        )
    )


@pytest.mark.parametrize("seated", [True, False])
def test_a_journal_put_back_while_a_job_is_parked_is_gone_beyond_when_it_comes_back(
    training: Any, seated: bool
) -> None:
    life = training()
    if not seated:
        life.dies(0)
    park(life)
    life.do(e.DriverStarted(term=9))
    for node in ("n0", "n1"):
        follows_later(life, node)
    assert all(life.job.history[-1].has(lost) for lost in range(3, 8))
    life.effects.clear()
    comes_back(life)
    assert life.job.epoch == 8 + LOST
    assert {(order.desired.epoch, order.desired.seats) for order in life.ordered(Instruct)} == {
        (8 + LOST, ())
    }
    recovers(life)


def test_so_it_is_with_orders_of_the_same_epoch(training: Any) -> None:
    life = training()
    park(life)
    life.do(e.DriverStarted(term=9))
    known = life.state.nodes["n0"]
    came = {"incarnation": known.incarnation, "address": known.address, "epoch": life.job.epoch}
    life.do(e.ExecutorConnected(node="n0", generation=known.told.generation, **came))
    comes_back(life)
    assert life.incident.kind is Kind.JOURNAL_PUT_BACK
    recovers(life)


def test_no_epoch_that_was_followed_is_given_whatever_defect_stands_in_the_way(
    training: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(turn: Any) -> None:
        raise KeyError("a defect of ours")

    life = training()
    life.do(e.DriverStarted(term=9))
    monkeypatch.setattr("holdfast.driver.core.decide.settle", broken)
    draft = Draft(state=life.state, now=life.now, at="", policy=life.policy)
    known = life.state.nodes["n0"]
    came = {"incarnation": known.incarnation, "address": known.address}
    draft.add(e.ExecutorConnected(node="n0", generation=30, epoch=7, **came))
    assert draft.state.epoch == 7 + LOST


# ---------------------------------------------------------------- tests


def test_a_standby_is_tested_anew_when_its_job_comes_back(training: Any) -> None:
    life = training(nodes=1, standbys=1, spare=1)
    (exam,) = life.state.exams.values()
    park(life)
    assert life.state.exams == {}
    (order, *_) = exam.orders["n1"]
    wrong = DiagnosticResult(
        id=order.id, test=order.test, node="n1", round=order.round, members=order.members,
        ok=False, wrong=True, unit="", value=None,
    )  # fmt: skip
    life.do(e.DiagnosticEnded(node="n1", id=exam.id, results=(wrong,)))
    assert life.state.exams == {}, "it would not be told of a second one"
    comes_back(life)
    (again,) = life.state.exams.values()
    assert (again.suspects, again.second) == (("n1",), False)
    assert life.told("n1").diagnostics == again.orders["n1"]


def test_an_exam_whose_end_meets_a_defect_is_put_off(
    training: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    life = training(spare=1)
    life.do(evicted_by_a_finding("n0"))
    life.do(e.NodeReleased(node="n0"))
    life.do(e.NodeDistrusted(node="n0"))
    life.answer()
    life.wait(until_s=life.now + life.policy.requalify_after_s + 1.0)
    (exam,) = life.state.exams.values()

    def broken(turn: Any, exam: Any, late: str) -> None:
        raise KeyError("a defect of ours")

    monkeypatch.setattr(
        exam_callers, "CALLERS", {**exam_callers.CALLERS, Purpose.REQUALIFICATION: broken}
    )
    assert exam.purpose is Purpose.REQUALIFICATION
    life.now = exam.until_s
    draft = Draft(state=life.state, now=life.now, at="", policy=life.policy)
    draft.add(e.Ticked())
    assert draft.state.exams[exam.id].until_s == life.now + FIRST_S
    assert next_deadline(draft.state) > life.now


# ---------------------------------------------------------------- who is due


@pytest.mark.parametrize("count", [1, MOST_TURNS, MOST_TURNS + 1, 3 * MOST_TURNS - 1])
def test_each_who_is_due_has_a_turn_however_many_they_are(life: Any, count: int) -> None:
    for k in range(count):
        life.submit(f"job-{k}", deadline_s=100.0)
    state: State = life.state
    turns = list(due(state, life.now + 100.0))
    assert [name for turn in turns for name in turn.jobs] == list(state.jobs)
    assert len(turns) <= MOST_TURNS + 1
