"""Facts that people tell: what they change, what they leave alone, and what is refused."""

import pytest
from msgspec.structs import replace

from holdfast.driver.core import events as e
from holdfast.driver.core.evidence import book, table
from holdfast.driver.core.job import move_on_suspicion
from holdfast.driver.core.job.candidates import moved_off
from holdfast.driver.core.recovery.case_of import case_of
from holdfast.driver.core.state.fact import About, Act, Bearing, Fact, FaultClass, Hypothesis
from holdfast.driver.core.state.model import Fault
from holdfast.driver.core.state.node import Quarantined
from holdfast.driver.core.state.versions import Version
from holdfast.driver.core.testing import afterwards
from holdfast.driver.core.turn import Turn
from holdfast.driver.formats.encode import decode, encode
from holdfast.driver.people.admission import LONGEST_WORDS, refuse
from holdfast.protocol.faults import Kind, Weight

FACTS = {
    "a node that there is not": (e.NodeFactTold(node="n77", words="x"), "unknown-node"),
    "a link to no node": (e.NodeFactTold(node="n1", to="n77", words="x"), "unknown-node"),
    "a link to the node itself": (e.NodeFactTold(node="n1", to="n1", words="x"), "one-node"),
    "a job that there is not": (e.JobFactTold(job="nope", words="x"), "unknown-job"),
    "a version that it never had": (
        e.JobFactTold(job="job", words="x", version=2),
        "unknown-version",
    ),
    "against a version with none before it": (
        e.JobFactTold(job="job", words="x", says="accuses"),
        "no-version-before",
    ),
    "nothing of a node": (e.NodeFactTold(node="n1", words=" "), "no-words"),
    "nothing of a job": (e.JobFactTold(job="job", words=""), "no-words"),
    "too much": (e.NodeFactTold(node="n1", words="x" * (LONGEST_WORDS + 1)), "no-words"),
}


def accusation(life, node: str, job: str) -> Fact:
    subject = life.state.nodes[node].subject
    return Fact(
        subject=subject,
        what="rank-crashed",
        bearing=Bearing.ACCUSES,
        at_s=life.now,
        about=About(job=job, version=1, node=subject),
        fault=FaultClass.DIED,
    )


def accuse(life, node: str, *jobs: str, **facets) -> None:
    """These jobs have accused the node, and our own has left it."""
    known = life.state.nodes[node]
    facts = tuple(accusation(life, node, job) for job in jobs)
    new = replace(known, record=replace(known.record, facts=facts), **facets)
    left = replace(accusation(life, node, "job"), subject=life.job.subject, done=Act.MOVE_COLD)
    job = replace(life.job, facts=(left,))
    nodes = {**life.state.nodes, node: new}
    life.state = replace(life.state, nodes=nodes, jobs={"job": job})


def suspicion(life, node: str) -> float:
    return book.suspicion(life.state.nodes[node].record.facts, life.now)


def case(life, node: str):
    crash = Fault(kind=Kind.RANK_CRASHED, weight=Weight.RESTART, node=node, summary="it died")
    return case_of(Turn(life.state, life.now, life.policy), life.job, crash)


@pytest.mark.parametrize(("event", "code"), FACTS.values(), ids=FACTS.keys())
def test_a_fact_needs_a_subject_and_words(training, event, code: str) -> None:
    refusal = refuse(training().state, event)
    assert refusal is not None
    assert refusal.code == code
    assert str(refusal).count(". ") == 1


def test_who_clears_a_node_voids_what_was_held_against_it(training) -> None:
    life = training(spare=1)
    accuse(life, "n2", "a", "b")
    life.do(e.NodeFactTold(node="n2", words="runs hot"))
    turn = Turn(life.state, life.now, life.policy)
    assert (moved_off(turn, life.job), case(life, "n2").node_faults) == ({"n2"}, 2)
    why = life.do(e.NodeFactTold(node="n2", words="cable replaced", says="clears")).why
    assert why == "a person clears n2: cable replaced; what was held against n2 counts no more"
    assert suspicion(life, "n2") == 0
    turn = Turn(life.state, life.now, life.policy)
    assert (moved_off(turn, life.job), case(life, "n2").node_faults) == (frozenset(), 1)
    told = [(fact.what, fact.by) for fact in life.state.nodes["n2"].record.facts]
    assert told == [("runs hot", "a person"), ("cable replaced", "a person")]
    assert not case(life, "n2").acquitted, "it was no test"
    assert decode(encode(life.state)) == life.state


def test_a_cleared_node_that_a_machine_put_out_is_tested_now(training) -> None:
    life = training(spare=1)
    out = Quarantined(why="bad", marked=True, setup=None, exam_s=life.now + 600)
    accuse(life, "n2", "a", "b", "c", trust=out)
    why = life.do(e.NodeFactTold(node="n2", words="new fan", says="clears")).why
    assert life.state.nodes["n2"].quarantine.exam_s == life.now
    assert "the tests of n2 are due" in why


def test_a_cleared_node_that_a_person_put_out_stays_out(training) -> None:
    life = training(spare=1)
    life.do(e.NodeEvictRequested(node="n2", reason="loud"))
    before = life.state.nodes["n2"].trust
    why = life.do(e.NodeFactTold(node="n2", words="new fan", says="clears")).why
    assert life.state.nodes["n2"].trust == before
    assert "a person keeps n2 out" in why
    life.do(e.NodeRestoreRequested(node="n2", reason="new fan"))
    assert life.state.nodes["n2"].record.cleared == 1, "what is void stays so"


def test_a_person_who_accuses_is_one_accuser_however_often(training) -> None:
    life = training()
    for words in ("smells of smoke", "and rattles"):
        life.do(e.NodeFactTold(node="n1", words=words, says="accuses"))
    assert book.accusers(life.state.nodes["n1"].record.facts, life.now) == 1
    assert suspicion(life, "n1") == pytest.approx(1.0, abs=1e-3)
    assert (life.blamed("n1"), life.evicted) == ([], []), "it is no fault"
    life.do(e.NodeFactTold(node="n1", words="it was the rack", says="clears"))
    assert suspicion(life, "n1") == 0


def with_a_version_before(life) -> None:
    """The job runs its second version, whose faults come on three nodes."""
    (first,) = life.job.versions
    other = replace(first.plan, task=replace(first.plan.task, command=("train", "--new")))
    second = Version(number=2, plan=other, at_s=life.now)
    history = (*life.job.history, replace(life.job.history[-1], version=2))
    job = replace(life.job, versions=(first, second), history=history)
    about = [About(job="job", version=2, node=life.state.nodes[n].subject) for n in ("n0", "n2")]
    facts = tuple(
        Fact(subject=job.subject, what="x", bearing=Bearing.CONTEXT, at_s=life.now, about=each,
             fault=FaultClass.DIED)
        for each in about
    )  # fmt: skip
    life.state = replace(life.state, jobs={"job": replace(job, facts=facts)})


def row(life):
    rows = table.judge(case(life, "n1")).rows
    return next(each for each in rows if each.hypothesis is Hypothesis.VERSION)


def test_a_version_that_a_person_clears_is_closed_until_another_accuses_it(training) -> None:
    life = training(spare=1)
    with_a_version_before(life)
    assert row(life).open
    life.do(e.JobFactTold(job="job", words="the loader is tested", version=2, says="clears"))
    closed = row(life)
    assert not closed.open
    assert closed.why == "a person says that it is well: the loader is tested"
    life.do(e.JobFactTold(job="job", words="it leaks", says="accuses"))
    assert (row(life).open, row(life).why) == (True, "a person says that it is bad: it leaks")
    life.do(e.JobFactTold(job="job", words="all good", version=1, says="clears"))
    assert row(life).open, "that was another version"
    assert life.paid == []


def test_a_passed_test_ends_a_quarantine_only_where_little_is_held_against_a_node(training) -> None:
    life = training(spare=1)
    out = Quarantined(why="bad", marked=True, exam_s=life.now)
    accuse(life, "n2", "a", "b", "c", trust=out)
    turn = Turn(life.state, life.now, life.policy)
    afterwards.passed(turn, "n2")
    assert "n2 passed its tests and stays out: suspicion is 1.5 still" in turn.reasons
    again_s = turn.nodes["n2"].quarantine.exam_s - life.now
    assert 4.0 < again_s / book.DAY_S < 4.2
    later = Turn(turn.state(), life.now + again_s, life.policy)
    afterwards.passed(later, "n2")
    assert later.nodes["n2"].quarantine is None


def test_a_node_that_was_cleared_before_is_last_for_the_job_that_leaves_it(training) -> None:
    life = training()
    life.do(e.NodeFactTold(node="n1", words="a new cable", says="clears"))
    turn = Turn(life.state, life.now, life.policy)
    move_on_suspicion.move(turn, "job", "n1")
    assert moved_off(turn, turn.jobs["job"]) == {"n1"}
