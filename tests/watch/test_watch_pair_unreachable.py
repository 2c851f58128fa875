"""Two nodes that the driver hears, and that cannot reach each other."""

from itertools import combinations, pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast.driver.core.faults.fault import fault_of
from holdfast.driver.watch import Expectation
from holdfast.driver.watch.model import NodeSeen
from holdfast.driver.watch.pair_unreachable import CERTAIN_S, SILENT_S, ProbeHistory, heard, judge
from holdfast.protocol.faults import Blame, Kind, Weight
from holdfast.protocol.messages import Heartbeat, Probe, RankProgress, Seat

NODES = ("a", "b", "c", "d")


def expected(epoch: int = 1) -> Expectation:
    seats = tuple(Seat(rank=k, local_rank=0, node=n, address="::") for k, n in enumerate(NODES))
    return Expectation(job="job", epoch=epoch, seats=seats)


def beat(
    node: str, lost: set[frozenset[str]], silent_s: float, *, reset: bool = False
) -> Heartbeat:
    """Of a node that probes all others; to those in a lost pair it has no answer."""
    probes = []
    for other in NODES:
        bad = frozenset((node, other)) in lost
        if other != node:
            probes.append(
                Probe(node=other, ok=not bad, reset=bad and reset, silent_s=silent_s if bad else 0)
            )
    return Heartbeat(
        node=node, incarnation="a", sequence=1, uptime_s=1.0, ranks=(), probes=tuple(probes)
    )


def judged(
    lost: set[frozenset[str]],
    *,
    before: bool = True,
    silent_s: float = SILENT_S + 1,
    quiet_s: float = 6.0,
    heard_s: float = 100.0,
    reset: bool = False,
    twice: bool = True,
) -> tuple[Any, ...]:
    apart = ProbeHistory(met={})
    for node in NODES:
        heard(apart, beat(node, set() if before else lost, 0.0 if before else silent_s))
    nodes = {
        node: NodeSeen(
            node=node,
            known_s=0.0,
            heard_s=heard_s,
            probes=beat(node, lost, silent_s, reset=reset).probes,
        )
        for node in NODES
    }
    times = (100.0, 100.0 + CERTAIN_S) if twice else (100.0,)
    found: tuple[Any, ...] = ()
    for now in times:
        apart, found = judge(apart, expected(), nodes, quiet_s, 1.5, now)
    if found:
        assert judge(apart, expected(), nodes, quiet_s, 1.5, now)[1] == (), "once an epoch"
        assert judge(apart, expected(2), nodes, quiet_s, 1.5, now)[1] != ()
    return found


PAIR = {frozenset(("a", "c"))}


def test_a_pair_is_told_of_without_a_name_for_one_of_them() -> None:
    (finding,) = judged(PAIR)
    assert (finding.kind, finding.weight) == (Kind.UNREACHABLE, Weight.SUSPECT)
    assert (finding.node, finding.apart, fault_of(finding).blame) == (
        None,
        ("a", "c"),
        Blame.INFRASTRUCTURE,
    )
    assert not finding.one_way
    assert finding.summary == "a and c cannot reach each other, though the driver hears them"
    texts = [piece.text for piece in finding.evidence]
    assert texts == ["a got no answer from c for 4.0 s", "c got no answer from a for 4.0 s"]


NOTHING = {
    "a moment without an answer": {"silent_s": SILENT_S / 2},
    "a job that goes on": {"quiet_s": 2.0},
    "a neighbour that refuses": {"reset": True},
    "nodes that are silent themselves": {"heard_s": 95.0},
    "a daemon that has only just come back to itself": {"twice": False},
}


@pytest.mark.parametrize("case", NOTHING)
def test_nobody_is_accused_for(case: str) -> None:
    assert judged(PAIR, **NOTHING[case]) == ()


def test_a_pair_that_never_met_counts_where_both_met_others() -> None:
    (finding,) = judged(PAIR, before=False)
    assert finding.apart == ("a", "c")


def test_where_a_wall_stands_between_all_nodes_nobody_is_accused() -> None:
    everybody = {frozenset(two) for two in combinations(NODES, 2)}
    assert judged(everybody, before=False) == ()


@pytest.mark.parametrize("hears", [("node-0", "node-1"), ("node-1", "node-0")])
def test_the_end_that_hears_the_other_ask_tells_which_way_is_cut(
    cluster: Any, hears: tuple[str, str]
) -> None:
    """Also of two nodes that never met: a wall lets no request through."""
    three = cluster(3)
    three.running = False
    for name, other in (("node-0", "node-1"), ("node-1", "node-0")):
        lost = Probe(node=other, ok=False, silent_s=4.0, heard=(name, other) == hears)
        three.extra[name] = {"probes": (lost,)}
    (found,) = [each for each in three.go(16) if each.kind is Kind.UNREACHABLE]
    assert (found.apart, found.one_way) == (hears, True)
    assert found.summary == f"{hears[0]} cannot reach {hears[1]}, though the driver hears them"


def test_what_one_of_the_two_tells_alone_is_of_no_way(cluster: Any) -> None:
    """A handshake needs both."""
    three = cluster(3)
    assert three.go(10) == []
    three.running = False
    lost, met = Probe(node="node-0", ok=False, silent_s=4.0), Probe(node="node-2", ok=True)
    three.extra["node-1"] = {"probes": (lost, met)}
    (found,) = [each for each in three.go(8) if each.kind is Kind.UNREACHABLE]
    assert (found.apart, found.one_way) == (("node-0", "node-1"), False)


pairs = st.sets(st.sets(st.sampled_from(NODES), min_size=2, max_size=2).map(frozenset), max_size=6)


@given(pairs)
def test_who_is_named_is_in_every_pairs_trouble_more_than_any_other(lost: Any) -> None:
    found = judged(lost)
    assert bool(found) == bool(lost)
    if not found:
        return
    (finding,) = found
    counts = sorted((sum(node in pair for pair in lost), node) for node in NODES)
    if finding.node is None:
        assert frozenset(finding.apart) in lost
    else:
        assert finding.apart == ()
        assert counts[-1] == (max(2, counts[-1][0]), finding.node)
        assert all(first <= second for first, second in pairwise(counts))
        assert counts[-2][0] < counts[-1][0]


@pytest.mark.parametrize("does", ["imports", "saves", "waits"])
def test_a_pair_that_never_met_counts_only_while_all_wait(cluster: Any, does: str) -> None:
    """Nobody may need the way between them: a job that only loads or saves goes on without it."""
    three = cluster(3)
    walled = {"node-0", "node-2"}
    for name in three.names:
        others = (each for each in three.names if each != name)
        probes = (Probe(node=o, ok={name, o} != walled, silent_s=9.0) for o in others)
        three.extra[name] = {"probes": tuple(probes)}
    three.running = False

    def alter(seen: RankProgress) -> RankProgress:
        if does == "imports":
            return replace(seen, groups=())
        group = replace(seen.groups[0], enqueued=9, done=8)
        return replace(seen, groups=(group,), pause="saves" if does == "saves" else "")

    three.alter = alter
    found = [each for each in three.go(20) if each.kind is Kind.UNREACHABLE]
    assert bool(found) is (does == "waits")


def test_two_sides_name_no_node_whichever_pairs_were_told_first() -> None:
    """Heartbeats come one after the other: for a moment only `a` tells of those it has lost."""
    apart, found = ProbeHistory(met={}), ()
    sides = {frozenset((one, other)) for one in "ab" for other in "cd"}
    for node in NODES:
        heard(apart, beat(node, set(), 0.0))
    for now in (100.0, 100.5, 101.0, 101.5, 102.0):
        lost = sides if now > 100.0 else set()
        probes = {each: beat(each, sides if each == "a" else lost, SILENT_S + 1) for each in NODES}
        nodes = {
            each: NodeSeen(node=each, known_s=0.0, heard_s=now, probes=told.probes)
            for each, told in probes.items()
        }
        apart, new = judge(apart, expected(), nodes, 6.0, 5.0, now)
        found += new
    assert [(each.node, each.apart) for each in found] == [(None, ("a", "c"))]


def test_a_standstill_that_ended_counts_no_more() -> None:
    apart = ProbeHistory(met={})
    nodes = {}
    for node in NODES:
        heard(apart, beat(node, set(), 0.0))
        last = beat(node, PAIR, SILENT_S + 1)
        nodes[node] = NodeSeen(node=node, known_s=0.0, heard_s=100.0, probes=last.probes)
    for now, quiet_s in ((100.0, 6.0), (100.5, 0.1), (101.5, 6.0)):
        apart, found = judge(apart, expected(), nodes, quiet_s, 5.0, now)
        assert found == ()


def test_a_whole_watch_tells_it_of_a_job_that_stands_still(cluster: Any) -> None:
    three = cluster(3)
    assert three.go(10) == []
    three.running = False
    began = three.now
    for name, other in (("node-0", "node-1"), ("node-1", "node-0")):
        rest = next(each for each in three.names if each not in (name, other))
        lost = Probe(node=other, ok=False, silent_s=4.0)
        three.extra[name] = {"probes": (lost, Probe(node=rest, ok=True))}
    found = [each for each in three.go(8) if each.kind is Kind.UNREACHABLE]
    assert [each.apart for each in found] == [("node-0", "node-1")]
    assert three.now - began < 9


def test_who_never_met_anybody_may_be_behind_a_wall() -> None:
    of_c = {frozenset((node, "c")) for node in "abd"}
    assert judged(of_c, before=False) == ()


def test_while_another_job_stands_still_too_each_is_told_of() -> None:
    apart, found = ProbeHistory(met={}), ()
    nodes = {}
    for node in NODES:
        heard(apart, beat(node, set(), 0.0))
        probes = beat(node, PAIR, SILENT_S + 1).probes
        nodes[node] = NodeSeen(node=node, known_s=0.0, heard_s=100.0, probes=probes)
    seats = (Seat(rank=0, local_rank=0, node="x", address="::"),)
    other = Expectation(job="other", epoch=1, seats=seats)
    for now in (100.0, 100.0 + CERTAIN_S):
        apart, _ = judge(apart, other, nodes, 6.0, 5.0, now)
        apart, found = judge(apart, expected(), nodes, 6.0, 5.0, now)
    assert [each.apart for each in found] == [("a", "c")]
