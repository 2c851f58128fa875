"""Nodes and exams of a state that an earlier Holdfast wrote, made those of today."""

from typing import Any

import msgspec
import pytest

from holdfast.driver.core.state import node as n
from holdfast.driver.core.state.fact import Bearing, Fact, OfNode
from holdfast.driver.core.state.model import Purpose, State
from holdfast.driver.core.state.node import Against, Node, Source
from holdfast.driver.formats.encode import decode, encode
from holdfast.protocol.messages import DiagnosticOrder

ORDER = {"id": "trial.7", "test": "compute", "time_box_s": 5.0}
HELD = {"job": "job", "allocated": True, "came": True, "ran": 3, "tested": True}
OUT = {"quarantined": True, "reason": "XID 79", "incident": 4, "marked": True, "evicted_s": 9.0}


def written(node: dict[str, Any], **state: Any) -> State:
    """As today's driver reads it."""
    nodes = {"n0": {"name": "n0", "present": True, **node}}
    read = decode(msgspec.msgpack.encode((1, {"sequence": 7, "nodes": nodes, **state})))
    assert decode(encode(read)) == read
    return read


def known(**node: Any) -> Node:
    return written(node).nodes["n0"]


def _earlier(bearing: Bearing, at_s: float) -> Fact:
    return Fact(subject=OfNode(name="n0"), what="earlier", bearing=bearing, at_s=at_s)


@pytest.mark.parametrize(
    ("old", "facet", "state"),
    [
        ({}, "presence", n.Here()),
        ({"present": False, "stranger": True}, "presence", n.Unknown()),
        ({"present": False, "gone_s": 3.0}, "presence", n.Gone(since_s=3.0)),
        ({}, "link", n.Never()),
        (
            {"incarnation": "a", "address": "x", "connected": True},
            "link",
            n.Connected(incarnation="a", address="x"),
        ),
        (
            {"incarnation": "a", "left": True, "silent_check_s": 5.0},
            "link",
            n.Broken(incarnation="a", address="", check_s=5.0),
        ),
        (
            {"incarnation": "a", "silent_check_s": 5.0},
            "link",
            n.Awaited(incarnation="a", address="", check_s=5.0),
        ),
        ({"forget": "old"}, "holding", n.Free(forget="old")),
        ({"releasing": True}, "holding", n.Returning()),
        ({"job": "job"}, "holding", n.Promised(job="job")),
        (HELD, "holding", n.Held(job="job", came=True, ran=3, tested=True)),
        ({"trusting": True}, "trust", n.Trusted(unmark=True)),
        (
            {**OUT, "asked": True, "trial_s": 60.0, "kit": {"job": "job", "diagnose_s": 30.0}},
            "trust",
            n.Quarantined(
                why="XID 79",
                incident=4,
                by_person=True,
                marked=True,
                exam_s=60.0,
                setup=n.ExamSetup(job="job", diagnose_s=30.0),
            ),
        ),
        (
            {"notice": {"why": "kernel", "source": "cluster", "by_s": 8.0, "returns": True}},
            "against",
            {Source.DRAIN: Against(why="kernel", by_s=8.0, returns=True)},
        ),
        (
            {"closed": "cordon", "rest_until_s": 6.0, "rest_why": "slow"},
            "against",
            {
                Source.CORDON: Against(why="cordon"),
                Source.REST: Against(why="slow", until_s=6.0),
            },
        ),
        (
            {"generation": 4, "epoch": 2, "called": 6},
            "told",
            n.Fencing(generation=4, epoch=2, called=6),
        ),
        (
            {"strikes": [1.0], "acquitted": [2.0], "silenced": True, "trial_wait_s": 60.0},
            "record",
            n.Record(
                facts=(_earlier(Bearing.CONTEXT, 1.0), _earlier(Bearing.ACQUITS, 2.0)),
                silenced=True,
                exam_wait_s=60.0,
            ),
        ),
    ],
)
def test_each_flag_is_the_state_of_a_facet(old: dict[str, Any], facet: str, state: Any) -> None:
    assert getattr(known(**old), facet) == state


def test_a_trial_and_a_self_test_are_exams() -> None:
    test = {"number": 7, "until_s": 90.0, "orders": [ORDER]}
    order = DiagnosticOrder(id="trial.7", test="compute", time_box_s=5.0)
    for flags, purpose in (
        ({**OUT, "trial": test}, Purpose.REQUALIFICATION),
        ({**HELD, "selftest": test}, Purpose.STANDBY),
    ):
        state = written(flags)
        exam = state.exams[state.nodes["n0"].exam or ""]
        assert (exam.purpose, exam.until_s, exam.orders) == (purpose, 90.0, {"n0": (order,)})
    lent = written({**OUT, "trial": test}).nodes["n0"]
    assert isinstance(lent.holding, n.Lent)


def test_whoever_failed_a_diagnosis_of_then_is_convicted_as_then() -> None:
    diagnosis = {"id": "4.7", "suspects": ["n0"], "orders": {"n0": [ORDER]}, "results": {}}
    job = {
        "name": "job",
        "plan": {"task": {"command": ["train"], "workdir": "."}, "nodes": 1, "ranks_per_node": 1},
        "phase": "Diagnosing",
        "number": 1,
        "submitted_s": 0.0,
        "since_s": 0.0,
        "places": ["n0"],
        "diagnosis": diagnosis,
        "timers": {"diagnose": 90.0, "settle": 600.0},
    }
    state = written(HELD, jobs={"job": job})
    exam = state.exams["4.7"]
    assert (exam.accused, exam.until_s, exam.job) == (("n0",), 90.0, "job")
    assert state.jobs["job"].exam == state.nodes["n0"].exam == "4.7"
    assert set(state.jobs["job"].timers) == {"settle"}


def test_what_a_node_class_named_in_fields_of_their_own_is_named_still() -> None:
    named = {"compute_gflops": 20.0, "allreduce_mb_per_s": 3.0}
    task = {"command": ["train"], "workdir": "."}
    plan = {"task": task, "nodes": 1, "ranks_per_node": 1, **named}
    job = {
        "name": "job",
        "versions": [{"number": 1, "at_s": 0.0, "plan": plan}],
        "layout": {"number": 0, "topology": {}, "nodes": 1, "ranks_per_node": 1, "places": []},
        "phase": "Pending",
        "number": 1,
        "submitted_s": 0.0,
        "since_s": 0.0,
    }
    out = {"type": "quarantined", "why": "XID 79", "setup": {"job": "job", "compute_gflops": 9.0}}
    suspect = {"type": "suspect", "why": "hangs", "setup": {"job": "job", **named}, "exam_s": 3.0}
    nodes = {
        "n0": {"name": "n0", "trust": out},
        "n1": {"name": "n1", "trust": suspect},
        "n2": {"name": "n2"},
    }
    state = decode(msgspec.msgpack.encode((3, {"jobs": {"job": job}, "nodes": nodes})))
    assert decode(encode(state)) == state
    assert state.jobs["job"].plan.node_class == named
    setups = [node.trust.setup for node in state.nodes.values() if node.trust != n.Trusted()]
    assert [setup.node_class for setup in setups] == [{"compute_gflops": 9.0}, named]
