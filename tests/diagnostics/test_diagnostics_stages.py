"""Diagnoses in stages: who is bad is found, nobody innocent is called so, and lies cost nobody."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.bench.diagnostics.simulated import diagnose, tally
from holdfast.bench.diagnostics.worlds import FAULTS, PARTITIONS, World
from holdfast.diagnostics import registry
from holdfast.diagnostics.following import MOST, Next, following
from holdfast.diagnostics.measured import Measured, answered, untested
from holdfast.diagnostics.plan import orders
from holdfast.diagnostics.sides import sides
from holdfast.diagnostics.stages import Stage, settled
from holdfast.protocol.messages import DiagnosticOrder, DiagnosticResult

NODES = [f"node-{number}" for number in range(8)]
NODES_12 = [f"node-{number}" for number in range(12)]


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("nodes", [8, 16])
def test_every_bad_part_is_found_where_nothing_lies(fault: str, nodes: int) -> None:
    found = tally(fault, nodes, lies=0.0, runs=20, seed=7)
    assert (found.found, found.false) == (found.bad, 0)


@pytest.mark.parametrize("fault", FAULTS)
def test_lies_of_one_in_twenty_accuse_nobody_and_hide_few(fault: str) -> None:
    found = tally(fault, 8, lies=0.05, runs=40, seed=7)
    assert found.false == 0
    assert found.found >= 0.9 * found.bad


@pytest.mark.parametrize("fault", PARTITIONS)
@pytest.mark.parametrize("nodes", [16, 64])
def test_racks_that_cannot_reach_each_other_are_told_and_nobody_is_bad(
    fault: str, nodes: int
) -> None:
    found = tally(fault, nodes, lies=0.0, runs=8, seed=7)
    assert (found.found, found.false, found.unclear) == (found.bad, 0, 0)
    assert found.split >= found.runs - 1


@pytest.mark.parametrize("fault", PARTITIONS)
def test_lies_in_racks_accuse_hardly_anybody(fault: str) -> None:
    assert tally(fault, 16, lies=0.05, runs=15, seed=7).false <= 1


def test_two_sides_are_told_only_where_no_pair_contradicts_and_each_has_two() -> None:
    two = {("a", "b"): True, ("b", "c"): False, ("c", "d"): True, ("a", "d"): False}
    assert sides(two).told() == (("a", "b"), ("c", "d"))
    assert sides({**two, ("a", "c"): True}).told() == ()
    assert sides({("a", "b"): True, ("b", "c"): False, ("a", "c"): False}).told() == ()
    bad_besides = {**two, ("a", "z"): False, ("d", "z"): False}
    assert sides(bad_besides).told() == (("a", "b"), ("c", "d"))


@settings(deadline=None, max_examples=40)
@given(st.integers(2, 20), st.integers(0, 2**32), st.floats(0.05, 1.0), st.floats(0.05, 1.0))
def test_nobody_good_is_called_bad(nodes: int, seed: int, link: float, compute: float) -> None:
    names, rng = [f"n{number}" for number in range(nodes)], Random(seed)
    bad = {rng.choice(names): ("allreduce", link), rng.choice(names): ("compute", compute)}
    verdict = diagnose(names, World(bad), rng, lies=0.0)
    assert set(verdict.bad) <= set(bad)


@settings(deadline=None, max_examples=40)
@given(st.integers(4, 24), st.integers(0, 2**32), st.floats(0.05, 0.4), st.floats(0.05, 0.4))
def test_two_bad_links_are_found_wherever_they_stand(
    nodes: int, seed: int, one: float, other: float
) -> None:
    names, rng = [f"n{number}" for number in range(nodes)], Random(seed)
    first, second = rng.sample(names, 2)
    bad = {first: ("allreduce", one), second: ("allreduce", other)}
    assert diagnose(names, World(bad), rng, lies=0.0).bad == dict.fromkeys(bad, "link")


ROOM = sorted(test.name for test in registry.tests_of(1, thorough=True) if not test.late_fails)


@settings(deadline=None, max_examples=40)
@given(
    st.integers(1, 12),
    st.dictionaries(
        st.tuples(st.sampled_from(ROOM), st.integers(0, 11)),
        st.sets(st.integers(0, 2), min_size=1),
        max_size=12,
    ),
)
def test_what_could_not_be_run_makes_nobody_bad(
    nodes: int, unrun: dict[tuple[str, int], set[int]]
) -> None:
    plan = orders(
        id="d", suspects=(names := NODES_12[:nodes]), healthy=(),
        addresses=dict.fromkeys(names, "198.18.0.1"), thorough=True,
    )  # fmt: skip
    short = {
        (test, NODES_12[node], turn) for (test, node), turns in unrun.items() for turn in turns
    }
    found = [
        untested(order, node, "no room")
        if (order.test, node, order.round) in short
        else answered(order, node, Measured(ok=True, value=100.0))
        for node, mine in plan.items()
        for order in mine
    ]
    verdict = settled([Stage(plan, tuple(found))] * 2)
    assert (verdict.bad, verdict.again) == ({}, {})
    never = {NODES_12[node] for (_, node), turns in unrun.items() if len(turns) == 3}
    assert never & set(names) <= set(verdict.undecided)


def test_a_disk_at_half_of_its_speed_is_not_called_bad() -> None:
    world = World({"node-3": ("disk_write", 0.5), "node-4": ("disk_read", 0.4)})
    assert all(not diagnose(NODES, world, Random(n), lies=0.0).bad for n in range(10))


def test_of_two_nobodys_link_is_bad() -> None:
    verdict = diagnose(["a", "b"], World({"a": ("allreduce", 0.1)}), Random(1), lies=0.0)
    assert verdict.bad == {}


def planned(again: tuple[tuple[str, str], ...] = ()) -> dict[str, tuple[DiagnosticOrder, ...]]:
    addresses = dict.fromkeys(NODES, "198.18.0.1")
    return orders(id="d", suspects=NODES, healthy=(), addresses=addresses, again=again)


def told(plan: dict[str, tuple[DiagnosticOrder, ...]], cut: set[str]) -> Stage:
    """Two cannot reach each other; all else is well."""
    found = [
        DiagnosticResult(
            id="d", test=order.test, node=node, round=order.round, members=order.members,
            ok=not cut or set(order.members) != cut, value=10.0,
        )
        for node, mine in plan.items()
        for order in mine
    ]  # fmt: skip
    return Stage(plan, tuple(found))


def test_a_pair_that_failed_once_is_tried_again_before_it_is_said_to_be_apart() -> None:
    cut = {"node-2", "node-3"}
    first = [told(planned(), cut)]
    verdict = settled(first)
    assert verdict.bad == {}
    assert set(verdict.undecided) == cut
    assert verdict.apart == (("node-2", "node-3"),)
    then = following(first, verdict, NODES)
    assert set(then.tested) == cut
    assert then.helpers
    assert cut in map(set, then.again)
    second = settled([*first, told(planned(verdict.apart), cut)])
    assert (second.bad, second.undecided, second.apart) == ({}, (), verdict.apart)
    mended = settled([*first, told(planned(verdict.apart), set())])
    assert (mended.bad, mended.undecided, mended.apart) == ({}, (), ())


def test_pairs_that_are_tried_again_share_rounds_and_leave_time_for_each_test() -> None:
    again = tuple((one, f"{one}-too") for one in NODES)
    nodes = [node for two in again for node in two]
    found = [
        orders(id="d", suspects=nodes, healthy=(), addresses=dict.fromkeys(nodes, ""), again=two)
        for two in (again[:1], again, [(a, b) for a in nodes for b in nodes if a < b])
    ]
    one, all_, most = ({mine[0].time_box_s for mine in plan.values()} for plan in found)
    assert one == all_
    assert min(most) > 1.0


def test_who_left_the_tests_speaks_against_nobody_and_is_not_spoken_against() -> None:
    plan = planned()
    kept = tuple(
        each for each in told(plan, set()).results if "node-4" not in (each.node, *each.members)
    )
    verdict = settled([Stage(plan, kept).without({"node-4"})])
    assert (verdict.bad, verdict.undecided, verdict.again) == ({}, (), {})


def test_there_are_no_more_stages_than_said() -> None:
    stage = Stage(planned(), ())
    verdict = settled([stage] * MOST)
    assert following([stage] * MOST, verdict, NODES) == Next()
    assert verdict.bad == {}
