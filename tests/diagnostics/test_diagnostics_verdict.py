"""Plans and verdicts: who is tested with whom, and whom the results convict."""

import random
from collections.abc import Collection

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.diagnostics.plan import alone, circle, orders, rounds
from holdfast.diagnostics.thresholds import Thresholds, thresholds
from holdfast.diagnostics.verdict import Verdict, judge, judge_alone
from holdfast.protocol.messages import DiagnosticOrder, DiagnosticResult

pytestmark = pytest.mark.usefixtures("two_tests")

Orders = dict[str, tuple[DiagnosticOrder, ...]]


def names(count: int) -> list[str]:
    return [f"node-{number}" for number in range(count)]


def plan(suspects: Collection[str], healthy: Collection[str] = ()) -> Orders:
    addresses = {node: f"198.18.0.{place + 1}" for place, node in enumerate([*suspects, *healthy])}
    return orders(
        id="d1", suspects=list(suspects), healthy=list(healthy), addresses=addresses, limit_s=40
    )


def measure(
    tests: Orders,
    *,
    links: Collection[str] = (),
    slow_links: Collection[str] = (),
    computes: Collection[str] = (),
    dead: Collection[str] = (),
    cut: Collection[Collection[str]] = (),
) -> list[DiagnosticResult]:
    """What honest nodes report where these are bad."""
    found = []
    for node, mine in tests.items():
        for order in mine:
            if node in dead:
                continue
            common = {
                "id": order.id,
                "test": order.test,
                "node": node,
                "round": order.round,
                "members": order.members,
            }
            if not order.members:
                good = node not in computes
                found.append(
                    DiagnosticResult(
                        **common,
                        ok=good,
                        value=100.0 if good else None,
                        unit="GFLOP/s",
                        detail="" if good else "wrong product",
                    )
                )
            elif {*links, *dead} & set(order.members) or set(order.members) in map(set, cut):
                found.append(DiagnosticResult(**common, ok=False, detail="timed out after 5.0 s"))
            else:
                slow = bool(set(slow_links) & set(order.members))
                found.append(
                    DiagnosticResult(**common, ok=True, value=1.1 if slow else 11.0, unit="MB/s")
                )
    return found


def verdict(tests: Orders, results: list[DiagnosticResult]) -> Verdict:
    return judge(tests, results, thresholds(results))


@pytest.mark.parametrize("count", range(2, 12))
def test_no_node_is_in_two_tests_of_one_round(count: int) -> None:
    for matches in rounds(names(count)):
        seen = [node for match in matches for node in match]
        assert len(seen) == len(set(seen))


@pytest.mark.parametrize("count", range(3, 12))
def test_each_node_is_tested_with_two_different_partners(count: int) -> None:
    matches = [match for matches in rounds(names(count)) for match in matches]
    for node in names(count):
        partners = {other for match in matches if node in match for other in match} - {node}
        assert len(partners) == 2
        assert sum(node in match for match in matches) == 2


def test_two_healthy_nodes_stand_beside_each_suspect() -> None:
    assert circle(["s"], ["a", "b", "c", "d"]) == ("s", "a", "b", "c")
    assert circle(["s", "t"], ["a", "b", "c", "d", "e"]) == ("s", "a", "b", "t", "c", "d")
    assert circle(["s"], ["s", "a"]) == ("s", "a")


def test_every_match_has_a_port_of_its_own_served_by_its_first_member() -> None:
    tests = plan(names(6))
    matches = {
        (o.round, o.members): (o.rendezvous, o.listen_port)
        for mine in tests.values()
        for o in mine
        if o.members
    }
    served = [(meeting.address, port) for meeting, port in matches.values() if meeting]
    assert len(set(served)) == len(served) == 6
    assert {port for _, port in served} <= {23_000, 23_001}
    for (_, members), (meeting, port) in matches.items():
        assert meeting is not None
        assert (meeting.address, meeting.port) == (f"198.18.0.{int(members[0][5:]) + 1}", port)


@given(st.integers(1, 12), st.integers(0, 30), st.floats(1, 200))
def test_all_tests_of_a_node_end_within_the_limit(
    suspects: int, healthy: int, limit_s: float
) -> None:
    everyone = names(suspects + healthy)
    tests = orders(
        id="d",
        suspects=everyone[:suspects],
        healthy=everyone[suspects:],
        addresses=dict.fromkeys(everyone, "127.0.0.1"),
        limit_s=limit_s,
    )
    assert max(sum(o.time_box_s for o in mine) for mine in tests.values()) <= limit_s + 1e-9
    assert set(everyone[:suspects]) <= set(tests)


def test_a_diagnosis_of_nobody_is_refused() -> None:
    with pytest.raises(ValueError, match="suspects: empty"):
        plan([])


@pytest.mark.parametrize(
    ("kind", "part"),
    [("links", "link"), ("slow_links", "link"), ("computes", "compute"), ("dead", "node")],
)
@pytest.mark.parametrize("count", [3, 4, 5, 8, 9])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_one_bad_node_is_named_with_its_part(kind: str, part: str, count: int, place: int) -> None:
    bad = names(count)[place]
    tests = plan(names(count))
    found = verdict(tests, measure(tests, **{kind: [bad]}))
    assert found.bad == {bad: part}
    assert found.undecided == ()


def test_two_bad_nodes_paired_with_each_other_are_both_named_and_nobody_else() -> None:
    tests = plan(names(6))
    found = verdict(tests, measure(tests, links=["node-2"], dead=["node-3"]))
    assert found.bad == {"node-2": "link", "node-3": "node"}
    assert found.undecided == ()


def test_a_good_node_between_two_bad_ones_is_undecided_and_then_cleared() -> None:
    tests = plan(names(6))
    first = verdict(tests, measure(tests, links=["node-1", "node-3"]))
    assert first.bad == {"node-1": "link", "node-3": "link"}
    assert first.undecided == ("node-2",)
    again = plan(first.undecided, ["node-0", "node-4", "node-5"])
    second = verdict(again, measure(again))
    assert (second.bad, second.undecided) == ({}, ())


def test_a_bad_link_between_two_nodes_has_an_unknown_end() -> None:
    tests = plan(["node-1"], ["node-2"])
    found = verdict(tests, measure(tests, links=["node-1"]))
    assert found.bad == {}
    assert found.undecided == ("node-1", "node-2")
    assert "link node-1-node-2, end unknown" in found.evidence[-1]


def test_the_evidence_has_the_figures_and_whom_they_point_at() -> None:
    tests = plan(["node-2"], ["node-1", "node-4"])
    found = verdict(tests, measure(tests, links=["node-2"]))
    assert found.evidence == (
        "neighbour all-reduce node-2-node-1: timed out after 5.0 s, node-1-node-4: 11.0 MB/s, "
        "node-4-node-2: timed out after 5.0 s -> node-2's link",
    )


def test_a_majority_is_never_convicted() -> None:
    tests = plan(names(5))
    found = verdict(tests, measure(tests, computes=names(3)))
    assert found.bad == {}
    assert set(names(3)) <= set(found.undecided)
    assert found.evidence[-1] == "3 of 5 nodes failed: more likely the test than the nodes"


def test_a_test_that_could_not_be_run_convicts_nobody() -> None:
    tests = plan(names(4))
    results = [
        DiagnosticResult(
            id=r.id, test=r.test, node=r.node, round=r.round, members=r.members, detail="no torch"
        )
        for r in measure(tests)
    ]
    found = verdict(tests, results)
    assert (found.bad, found.undecided) == ({}, tuple(names(4)))


def test_a_node_class_decides_where_it_is_given() -> None:
    tests = plan(names(4))
    results = measure(tests)
    strict = thresholds(results, {"compute_gflops": 150, "allreduce_mb_per_s": 2})
    assert strict == Thresholds({"compute": 150, "allreduce": 2})
    assert thresholds(results) == Thresholds({"compute": 50, "allreduce": 5.5})
    with pytest.raises(ValueError, match=r"gflops: no test's threshold\. Name one of compute_g"):
        thresholds(results, {"gflops": 150})


def lie(result: DiagnosticResult) -> DiagnosticResult:
    return DiagnosticResult(
        id=result.id,
        test=result.test,
        node=result.node,
        round=result.round,
        members=result.members,
        ok=not result.ok,
        value=None if result.ok else 50.0,
        detail="a lie",
    )


@given(st.integers(3, 12), st.data())
def test_one_lying_result_convicts_nobody(count: int, data: st.DataObject) -> None:
    tests = plan(names(count))
    results = measure(tests)
    place = data.draw(st.integers(0, len(results) - 1))
    results[place] = lie(results[place])
    assert verdict(tests, results).bad == {}


@given(st.integers(4, 16), st.data())
def test_bad_nodes_at_random_places_never_take_a_good_one_with_them(
    count: int, data: st.DataObject
) -> None:
    everyone = names(count)
    bad = data.draw(st.lists(st.sampled_from(everyone), unique=True, max_size=count // 3))
    kinds = data.draw(st.lists(st.sampled_from(["links", "dead", "computes"]), min_size=16))
    parts: dict[str, list[str]] = {"links": [], "dead": [], "computes": []}
    for node, kind in zip(bad, kinds, strict=False):
        parts[kind].append(node)
    tests = plan(everyone)
    found = verdict(tests, measure(tests, **parts))
    assert set(found.bad) <= set(bad)
    assert set(bad) <= set(found.bad) | set(found.undecided)


def test_with_five_lies_in_a_hundred_the_bad_are_found_and_the_good_are_left_alone() -> None:
    rng = random.Random(11)
    convicted = innocent = missed = 0
    for _ in range(1_000):
        everyone = names(rng.randint(4, 12))
        bad = rng.choice(everyone)
        tests = plan(everyone)
        honest = measure(tests, **{rng.choice(["links", "dead", "computes"]): [bad]})
        told = [lie(result) if rng.random() < 0.05 else result for result in honest]
        found = verdict(tests, told)
        convicted += bad in found.bad
        innocent += len(set(found.bad) - {bad})
        missed += bad not in found.bad and bad not in found.undecided
    assert convicted > 800
    assert innocent < 25
    assert missed < 50


FAST, SLOW, WRONG, LATE, NONE = "fast", "slow", "wrong", "late", "none"
MEASURED = {
    FAST: {"ok": True, "value": 50.0},
    SLOW: {"ok": True, "value": 1.0},
    WRONG: {"ok": False, "wrong": True, "detail": "7 of 9 elements are wrong"},
    LATE: {"ok": False, "detail": "timed out after 5.0 s"},
    NONE: {"ok": None, "detail": "the runner could not be started"},
}
CONVICTED, UNDECIDED, CLEARED = {"n": "compute"}, ("n",), ()


@pytest.mark.parametrize(
    ("rounds", "named", "found"),
    [
        ([FAST, FAST], 0, CLEARED),
        ([SLOW, SLOW], 0, CLEARED),
        ([WRONG, FAST], 0, CLEARED),
        ([WRONG, WRONG], 0, CONVICTED),
        ([WRONG], 0, UNDECIDED),
        ([WRONG, NONE], 0, UNDECIDED),
        ([WRONG, LATE], 0, UNDECIDED),
        ([LATE, LATE], 0, UNDECIDED),
        ([NONE, NONE], 20, UNDECIDED),
        ([], 20, UNDECIDED),
        ([SLOW, FAST], 20, CLEARED),
        ([SLOW, SLOW], 20, CONVICTED),
        ([WRONG, LATE], 20, CONVICTED),
        ([LATE, NONE], 20, UNDECIDED),
    ],
)
def test_a_lone_node_is_convicted_of_what_needs_no_fellow(rounds, named, found) -> None:
    tests = alone(id="d1", node="n", limit_s=10)
    results = [
        DiagnosticResult(id="d1", test="compute", node="n", round=turn, **MEASURED[measured])
        for turn, measured in enumerate(rounds)
    ]
    judged = judge_alone("n", tests, results, {"compute_gflops": named})
    assert judged.bad == (found if found == CONVICTED else {})
    assert judged.undecided == (UNDECIDED if found == UNDECIDED else ())
    assert judged.evidence or found == CLEARED


@pytest.mark.parametrize("count", [2, 3, 4, 5, 8])
def test_two_good_nodes_that_fail_only_together_are_apart_and_nobody_is_bad(count: int) -> None:
    nodes = names(count)
    tests = plan(nodes)
    found = verdict(tests, measure(tests, cut=[nodes[:2]]))
    assert found.apart == (tuple(nodes[:2]),)
    assert found.bad == {}
    assert verdict(tests, measure(tests)).apart == ()


def test_of_a_bad_node_or_a_slow_link_no_pair_is_told() -> None:
    nodes = names(6)
    tests = plan(nodes)
    for harm in ({"links": nodes[:1]}, {"slow_links": nodes[:1]}, {"dead": nodes[:1]}):
        assert verdict(tests, measure(tests, **harm)).apart == ()
    two = plan(nodes[:2])
    assert verdict(two, measure(two, computes=nodes[:1], links=nodes)).apart == ()
