"""Who was not accused needs a second failure, with other partners: plans, verdicts, both exams."""

import random
from collections.abc import Collection

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.diagnostics.plan import circle, orders, partners
from holdfast.diagnostics.thresholds import thresholds
from holdfast.diagnostics.verdict import Verdict, judge
from holdfast.protocol.messages import DiagnosticOrder, DiagnosticResult

FALSE_ALARMS = 0.01
NODES = [f"n{number:03}" for number in range(300)]
KINDS = st.sampled_from(["compute", "allreduce"])

Orders = dict[str, tuple[DiagnosticOrder, ...]]


def planned(suspects: Collection[str], healthy: Collection[str] = ()) -> Orders:
    addresses = dict.fromkeys(NODES, "127.0.0.1")
    return orders(id="d", suspects=list(suspects), healthy=list(healthy), addresses=addresses)


def told(tests: Orders, failing: dict[str, str]) -> list[DiagnosticResult]:
    """What the nodes tell where each of `failing` fails that test, with whomever it is."""
    return [
        DiagnosticResult(
            id=order.id,
            test=order.test,
            node=node,
            round=order.round,
            members=order.members,
            ok=all(failing.get(each) != order.test for each in order.members or (node,)),
            value=10.0,
        )
        for node, mine in tests.items()
        for order in mine
    ]


def examined(
    tests: Orders, failing: dict[str, str], accused: Collection[str] | None = None
) -> Verdict:
    results = told(tests, failing)
    return judge(tests, results, thresholds(results), accused=accused)


def alarms(seed: int, nodes: Collection[str]) -> dict[str, str]:
    """Which of the healthy fail an exam by chance, and in which test."""
    rng = random.Random(seed)
    unlucky = [node for node in nodes if rng.random() < FALSE_ALARMS]
    return {node: rng.choice(["compute", "allreduce"]) for node in unlucky}


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(NODES), KINDS)
def test_of_300_nobody_innocent_is_convicted_by_one_exam(seed: int, bad: str, kind: str) -> None:
    failing = {**alarms(seed, NODES), bad: kind}
    tests = planned(NODES)
    for accused in ((), (bad,)):
        found = examined(tests, failing, accused)
        assert set(found.bad) <= set(accused)
        assert set(found.again) <= set(failing)
    everyone = examined(tests, failing)  # as it was: whoever fails is convicted
    assert {*found.bad, *found.again} == set(everyone.bad)
    assert everyone.again == {}


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(NODES), KINDS)
def test_a_bad_node_is_convicted_by_the_first_if_it_is_accused_else_by_the_second(
    seed: int, bad: str, kind: str
) -> None:
    healthy = [node for node in NODES if node != bad]
    first = planned(NODES)
    failing = {**alarms(seed, healthy), bad: kind}
    accused = examined(first, failing, [bad])
    beside = {name for order in first[bad] for name in order.members} - {bad}
    assert bad in accused.bad or beside <= set(failing)
    once = examined(first, failing, ())
    subjects = [*once.again, *once.undecided]
    assert bad in subjects
    met = {name for node in subjects for order in first[node] for name in order.members}
    good = [node for node in NODES if node not in subjects]
    help_ = partners(subjects, good, met)
    assert not met & set(help_)
    twice = examined(planned(subjects, help_), {bad: kind}, subjects)
    assert list(twice.bad) == [bad]
    assert (twice.again, twice.undecided) == ({}, ())


def test_over_many_exams_only_who_is_bad_fails_twice() -> None:
    innocent, found = 0, 0
    for seed in range(60):
        bad = NODES[5 * seed % 300]
        healthy = [node for node in NODES if node != bad]
        once = examined(planned(NODES), {**alarms(seed, healthy), bad: "compute"}, ())
        again = planned(once.again, partners(once.again, healthy, once.again))
        unlucky = alarms(1_000 + seed, healthy)
        twice = examined(again, {**unlucky, bad: "compute"}, once.again)
        found += bad in twice.bad
        innocent += len(set(twice.bad) - {bad})
    assert (found, innocent) == (60, 0)


def test_a_majority_is_not_even_examined_again() -> None:
    tests = planned(NODES[:5])
    found = examined(tests, dict.fromkeys(NODES[:3], "compute"), ())
    assert (found.bad, found.again) == ({}, {})


def test_the_evidence_says_why_it_was_not_convicted() -> None:
    found = examined(planned(NODES[:4]), {"n001": "compute"}, ["n002"])
    assert (found.bad, found.again, found.undecided) == ({}, {"n001": "compute"}, ())
    assert found.evidence[-1] == "n001 failed, but nobody had accused it: one exam is not enough"


NAMES = st.lists(st.sampled_from(NODES[:20]), unique=True)


@given(NAMES.filter(bool), NAMES, NAMES)
def test_those_who_helped_before_help_again_only_where_others_do_not_suffice(
    subjects: list[str], healthy: list[str], before: list[str]
) -> None:
    chosen = partners(subjects, healthy, before)
    others = [node for node in healthy if node not in subjects]
    fresh = [node for node in others if node not in before]
    assert len(chosen) == len(set(chosen)) <= 2 * len(subjects) + 1
    assert set(chosen) <= set(others)
    assert set(chosen) <= set(fresh) or set(fresh) <= set(chosen)
    assert set(circle(subjects, chosen)) == {*subjects, *chosen}
    assert set(circle(subjects, healthy)) == {*subjects, *partners(subjects, healthy)}
