"""A node's facets: the ways between their states, and what follows on those seldom gone."""

import pytest
from msgspec.structs import replace

from holdfast.driver.core import events as e
from holdfast.driver.core.effects import Allocate, Distrust, HoldForExam
from holdfast.driver.core.policy import Policy
from holdfast.driver.core.state import edges
from holdfast.driver.core.state import node as n
from holdfast.driver.core.state.edges import FACETS, IllegalEdge
from holdfast.driver.core.state.fact import Bearing, Fact, OfNode
from holdfast.driver.core.state.model import State
from holdfast.driver.core.state.node import Node, Source
from holdfast.driver.core.turn import Turn
from holdfast.protocol.faults import Finding, Kind, Weight
from holdfast.protocol.messages import DiagnosticResult

WAIT_S = Policy().requalify_after_s
HERE = Node(name="n0", presence=n.Here())


def xid(node: str) -> e.Found:
    text = f"XID 79 on {node}"
    finding = Finding(kind=Kind.KERNEL_FAULT, weight=Weight.CONCLUSIVE, node=node, summary=text)
    return e.Found(finding=finding)


def ends(life, node: str, *, ok: bool) -> e.DiagnosticEnded:
    exam = life.state.exams[life.state.nodes[node].exam]
    results = tuple(
        DiagnosticResult(id=each.id, test=each.test, node=node, round=each.round, ok=ok, value=50.0)
        for each in exam.orders[node]
    )
    return e.DiagnosticEnded(node=node, id=exam.id, results=results)


@pytest.fixture
def evicted(training):
    """n1 was evicted from a job of two nodes, n2 has its place; it is not given back yet."""
    life = training(spare=1, spec=b"{}")
    life.do(xid("n1"))
    life.answer()
    return life


def back(life, node: str = "n1") -> None:
    life.do(e.NodeReleased(node=node))
    life.do(e.NodeDistrusted(node=node))


def examined(life, node: str = "n1") -> bool:
    return isinstance(life.state.nodes[node].holding, n.Lent)


# ---------------------------------------------------------------- the tables


def test_each_way_has_its_sentence_and_each_state_can_be_come_to() -> None:
    for name, facet in FACETS.items():
        assert all(sentence for sentence in facet.values())
        kinds = set(Node.__annotations__[name].__args__)
        first = type(getattr(Node(name="n0"), name))
        assert {end for _, end in facet} | {first} == kinds, name


def test_a_way_that_no_table_has_is_a_defect() -> None:
    held = replace(HERE, holding=n.Held(job="job"))
    with pytest.raises(IllegalEdge, match="holding of n0: Held -> Free is not in the table"):
        edges.check_node(held, replace(held, holding=n.Free()))
    with pytest.raises(IllegalEdge, match="presence of n0: Here -> Unknown"):
        edges.check_node(HERE, replace(HERE, presence=n.Unknown()))


@pytest.mark.parametrize("told", [n.Held(job="other"), n.Promised(job="job")])
def test_what_is_noted_of_a_node_in_a_job_changes_neither_the_job_nor_how_it_is_held(told) -> None:
    held = replace(HERE, holding=n.Held(job="job"))
    turn = Turn(State(nodes={"n0": held}), 0.0, Policy())
    turn.note("n0", n.Held(job="job", ran=2))
    assert turn.nodes["n0"].held.ran == 2
    with pytest.raises(IllegalEdge, match="holding of n0: Held -> "):
        turn.note("n0", told)


@pytest.mark.parametrize("field", ["generation", "epoch", "called"])
def test_what_a_node_was_told_only_grows(field: str) -> None:
    told = replace(HERE, told=n.Fencing(generation=2, epoch=2, called=2))
    edges.check_node(told, replace(told, told=replace(told.told, **{field: 3})))
    with pytest.raises(IllegalEdge):
        edges.check_node(told, replace(told, told=replace(told.told, **{field: 1})))


# ---------------------------------------------------------------- seldom gone, and named


def test_a_node_that_is_evicted_while_it_goes_back_is_tested_once_it_is_free_and_marked(
    evicted,
) -> None:
    life = evicted
    assert isinstance(life.state.nodes["n1"].holding, n.Returning)
    life.wait(until_s=life.now + WAIT_S + 1)
    assert not examined(life)
    life.do(e.NodeReleased(node="n1"))
    life.wait(until_s=life.now + 1)
    assert not examined(life), "the cluster has not noted yet that it is distrusted"
    life.do(e.NodeDistrusted(node="n1"))
    life.wait(until_s=life.now + 1)
    assert examined(life)


def test_a_node_that_is_accused_in_its_tests_has_failed_them_and_waits_twice_as_long(
    evicted,
) -> None:
    life = evicted
    back(life)
    life.wait(until_s=life.now + WAIT_S + 1)
    decision = life.do(xid("n1"))
    assert f"stays out; the next tests are in {2 * WAIT_S:g} s" in decision.why
    assert not examined(life)


def test_a_node_that_goes_away_while_it_is_promised_is_replaced(life) -> None:
    for name in ("n0", "n1", "n2"):
        life.node(name)
    life.submit()
    (first, second) = (order.node for order in life.ordered(Allocate))
    life.do(e.NodeAllocated(job="job", node=first))
    life.do(e.NodeVanished(node=second))
    incarnation = life.state.nodes[second].incarnation
    life.do(e.ExecutorDisconnected(node=second, incarnation=incarnation))
    node = life.state.nodes[second]
    assert isinstance(node.presence, n.Gone)
    assert isinstance(node.holding, n.Returning)
    assert life.ordered(Allocate)[-1].node == "n2"


def test_a_node_that_is_cordoned_is_tested_all_the_same_and_pays_nothing_for_it(evicted) -> None:
    life = evicted
    back(life)
    life.do(e.NodeAppeared(node="n1", closed="kubectl cordon"))
    life.wait(until_s=life.now + WAIT_S + 1)
    assert examined(life)
    life.do(ends(life, "n1", ok=True))
    assert life.state.nodes["n1"].record.exam_wait_s == WAIT_S
    assert life.state.nodes["n1"].against.keys() == {Source.CORDON}


def test_a_stranger_is_known_once_the_cluster_has_it_and_stays_when_it_goes_away(life) -> None:
    life.connect("n9", "n9-first")
    assert life.state.nodes["n9"].stranger
    life.do(e.NodeAppeared(node="n9"))
    life.do(e.ExecutorDisconnected(node="n9", incarnation="n9-first"))
    assert isinstance(life.state.nodes["n9"].presence, n.Here)


def test_a_name_that_another_machine_has_keeps_the_quarantine_and_is_tested_at_once(
    evicted,
) -> None:
    life = evicted
    life.do(e.NodeAppeared(node="n1", machine="uuid-1"))
    back(life)
    known = life.state.nodes["n1"]
    fact = Fact(subject=OfNode(name="n1"), what="tests", bearing=Bearing.ACQUITS, at_s=1.0)
    record = replace(known.record, facts=(fact,))
    life.state = replace(
        life.state, nodes={**life.state.nodes, "n1": replace(known, record=record)}
    )
    life.do(e.NodeAppeared(node="n1", machine="uuid-1"))
    assert life.acquittals("n1"), "it is the same"
    life.do(e.NodeVanished(node="n1"))
    decision = life.do(e.NodeAppeared(node="n1", machine="uuid-2"))
    assert "n1 is another machine now" in decision.why
    node = life.state.nodes["n1"]
    assert node.quarantined
    assert node.record.facts == ()
    life.wait(until_s=life.now + 1)
    assert [order.node for order in life.ordered(HoldForExam)] == ["n1"]


def test_what_a_person_evicted_is_not_tested_though_another_machine_has_the_name(evicted) -> None:
    life = evicted
    life.do(e.NodeAppeared(node="n1", machine="uuid-1"))
    back(life)
    life.do(e.NodeEvictRequested(node="n1", reason="it smells"))
    life.do(e.NodeAppeared(node="n1", machine="uuid-2"))
    life.wait(until_s=life.now + 2 * WAIT_S)
    assert not examined(life)


def test_two_machines_that_have_a_name_in_turn_are_no_new_ones_each_time(evicted) -> None:
    life = evicted
    back(life)
    for machine in ("uuid-1", "uuid-2", "uuid-1"):
        life.do(e.NodeAppeared(node="n1", machine=machine))
    decision = life.do(e.NodeAppeared(node="n1", machine="uuid-2"))
    assert "another machine" not in decision.why


def test_a_node_that_is_trusted_again_rests_no_more(evicted) -> None:
    life = evicted
    back(life)
    rest = {Source.REST: n.Against(why="slow", until_s=life.now + 1_000)}
    known = replace(life.state.nodes["n1"], against=rest)
    life.state = replace(life.state, nodes={**life.state.nodes, "n1": known})
    life.do(e.NodeRestoreRequested(node="n1", reason="mended"))
    assert life.state.nodes["n1"].against == {}


@pytest.mark.parametrize("kept", ["nothing", "quarantine", "a person's word"])
def test_a_node_that_is_gone_for_long_is_forgotten_but_for_what_stands_against_it(
    life, kept: str
) -> None:
    for name in ("n0", "n1"):
        life.node(name)
    if kept == "quarantine":
        life.do(xid("n1"))
        back(life)
    if kept == "a person's word":
        life.do(e.NodeMaintainRequested(node="n1", reason="new kernel"))
    incarnation = life.state.nodes["n1"].incarnation
    life.do(e.NodeVanished(node="n1"))
    life.do(e.ExecutorDisconnected(node="n1", incarnation=incarnation))
    life.now += life.policy.forget_s + 1
    life.do(e.NodeVanished(node="n0"))
    assert ("n1" in life.state.nodes) == (kept != "nothing")


def test_a_driver_that_takes_over_believes_that_nodes_are_there_until_they_are_listed(
    training,
) -> None:
    life = training()
    life.do(e.DriverStarted(term=2))
    assert all(node.present for node in life.state.nodes.values())
    assert all(isinstance(node.link, n.Awaited) for node in life.state.nodes.values())
    life.do(e.NodeVanished(node="n1"))
    assert not life.state.nodes["n1"].present


# ---------------------------------------------------------------- one reason a source


def test_a_person_and_the_cluster_want_a_node_free_and_each_takes_back_its_own_word(
    training,
) -> None:
    life = training(spare=1)
    life.do(e.NodeAppeared(node="n2", notice="host maintenance"))
    life.do(e.NodeMaintainRequested(node="n2", reason="new kernel"))
    decision = life.do(e.NodeAppeared(node="n2"))
    assert "n2 is still to be free: a person wants to work on it: new kernel" in decision.why
    decision = life.do(e.NodeRestoreRequested(node="n2", reason="done"))
    assert "n2 need not be free any more" in decision.why
    assert life.state.nodes["n2"].against == {}


def test_an_executor_that_has_to_go_takes_no_word_of_a_persons_with_it(training) -> None:
    """The notice of a pod that was being deleted took the place of a person's, and went with it."""
    life = training(spare=1)
    life.do(e.NodeMaintainRequested(node="n1", reason="new kernel"))
    life.do(e.ExecutorEnding(job="job", node="n1", why="its pod is deleted", within_s=30.0))
    life.do(e.ExecutorEnded(job="job", node="n1", why="its pod is deleted"))
    life.do(e.NodeReleased(node="n1"))
    node = life.state.nodes["n1"]
    assert node.against.keys() == {Source.PERSON}
    assert Distrust not in map(type, life.effects)
