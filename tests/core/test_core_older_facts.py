"""Counters of a job's faults that an earlier Holdfast wrote, read as facts."""

from typing import Any

import msgspec
from tests.core.conftest import Life

from holdfast.driver.core import events as e
from holdfast.driver.core.evidence import book
from holdfast.driver.core.state.fact import Fact, FaultClass, OfNode
from holdfast.driver.core.state.model import State
from holdfast.driver.core.state.versions import Version
from holdfast.driver.follow.patience import patience_of
from holdfast.driver.formats.encode import decode, encode
from holdfast.protocol.faults import Blame

COUNTED: dict[str, Any] = {
    "spent": [{"at_s": 5.0, "blame": "user"}, {"at_s": 6.0, "blame": "infrastructure"}],
    "spots": {"evaluate (train.py:31), step 40": 3},
    "ends": [
        {"mark": {"how": "SIGSEGV", "step": 7}, "nodes": ["n0", "n1"], "at_s": 8.0},
        {"mark": {"how": "exit code 1: bad", "step": 0}, "nodes": [""], "at_s": 9.0},
    ],
    "moved": {"n0": 10.0},
}


def facts_of(counted: dict[str, Any]) -> tuple[Fact, ...]:
    """Those of a job that version 5 wrote with these counters."""
    life = Life()
    life.submit(nodes=2)
    (_, state) = msgspec.msgpack.decode(encode(life.state))
    state["jobs"]["job"].update(counted)
    read: State = decode(msgspec.msgpack.encode((5, state)))
    assert decode(encode(read)) == read
    assert isinstance(read.jobs["job"].versions[0], Version)
    return read.jobs["job"].facts


def test_what_was_paid_is_paid() -> None:
    facts = facts_of(COUNTED)
    assert book.paid(facts, Blame.USER, 0.0) == 1
    assert book.paid(facts, Blame.INFRASTRUCTURE, 0.0) == 1


def test_patience_at_a_place_of_the_script_stays() -> None:
    facts = facts_of(COUNTED)
    assert patience_of(facts, 20.0) == {"evaluate (train.py:31), step 40": 3}


def test_ends_keep_their_site_and_their_nodes() -> None:
    died = [fact for fact in facts_of(COUNTED) if fact.fault is FaultClass.DIED]
    (said,) = [fact for fact in facts_of(COUNTED) if fact.fault is FaultClass.SAID]
    assert [fact.about.node.name for fact in died if fact.about.node] == ["n0", "n1"]
    assert {fact.about.site.step for fact in died if fact.about.site} == {7}
    assert said.about.node is None
    assert said.about.site is not None
    assert said.about.site.fresh


def test_pairs_that_could_not_meet_are_links_both_ways() -> None:
    life = Life()
    for name in ("n0", "n1"):
        life.do(e.NodeAppeared(node=name, machine=f"machine of {name}"))
    life.do(e.NodeFactTold(node="n1", words="a new fan", says="clears"))
    (_, state) = msgspec.msgpack.decode(encode(life.state))
    cut = {"nodes": ["n0", "n1"], "at_s": 5.0}
    gone = {"nodes": ["n0", "n9"], "at_s": 6.0}
    read: State = decode(msgspec.msgpack.encode((6, state | {"apart": [cut, gone]})))
    assert decode(encode(read)) == read
    links = list(book.cut(read.facts, read.nodes, 60.0))
    assert [link.target.name for link in links] == ["n1", "n0"]
    assert list(book.cut(read.facts, read.nodes, 5.0 + 2 * book.LINK_S)) == []


def test_nodes_that_it_left_are_its_last_choice() -> None:
    assert book.moved_off(facts_of(COUNTED), 20.0) == {OfNode(name="n0")}


def test_a_job_without_counters_has_no_facts() -> None:
    assert facts_of({}) == ()
