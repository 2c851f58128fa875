"""Whom each daemon probes, and what it costs to say so once a job stands still."""

from typing import Any

import pytest

from holdfast.driver.watch import Expectation
from holdfast.driver.watch.detector import Context
from holdfast.driver.watch.model import Settings
from holdfast.driver.watch.neighbours import MESH
from holdfast.driver.watch.nodes import Nodes
from holdfast.protocol.messages import Heartbeat, Seat


def expected(job: str, names: list[str]) -> Expectation:
    seats = (
        Seat(rank=rank, local_rank=0, node=name, address=f"at {name}")
        for rank, name in enumerate(names)
    )
    return Expectation(job=job, epoch=1, seats=tuple(seats))


def names(job: str, count: int) -> list[str]:
    return [f"{job}-{place:02}" for place in range(count)]


def known(**jobs: int) -> Nodes:
    context = Context(settings=Settings())
    nodes = Nodes(context)
    for job, count in jobs.items():
        context.expected[job] = expected(job, names(job, count))
        nodes.know(names(job, count), 0.0)
    nodes.seat()
    return nodes


def probed(nodes: Nodes, name: str) -> set[str]:
    told = nodes.instructions()[name].neighbours
    assert all(address == f"at {node}" for node, address in told)
    assert len(set(told)) == len(told)
    return {node for node, _ in told}


@pytest.mark.parametrize("count", [1, 2, 3, MESH])
def test_of_a_small_job_that_stands_still_each_probes_all_others(count: int) -> None:
    nodes = known(a=count)
    assert probed(nodes, "a-00") == set(names("a", count)[1:3])
    nodes.stands("a", stands=True)
    for name in names("a", count):
        assert probed(nodes, name) == set(names("a", count)) - {name}


def test_of_a_larger_one_each_probes_half_as_many_both_ways_around() -> None:
    nodes, ring = known(a=MESH + 4), names("a", MESH + 4)
    nodes.stands("a", stands=True)
    for place, name in enumerate(ring):
        ways = [step for step in range(-MESH // 2, MESH // 2 + 1) if step]
        assert probed(nodes, name) == {ring[(place + step) % len(ring)] for step in ways}


def test_a_standstill_makes_orders_anew_for_its_own_nodes_alone() -> None:
    nodes = known(a=4, b=4)
    before = nodes.instructions()
    nodes.stands("a", stands=True)
    during = nodes.instructions()
    assert {name for name in before if during[name] is not before[name]} == set(names("a", 4))
    nodes.stands("a", stands=False)
    after = nodes.instructions()
    assert all(after[name] is before[name] for name in before)
    assert nodes.instructions() is after


def test_a_whole_watch_orders_it_once_a_job_has_stood_for_its_floor_and_till_it_goes_on(
    cluster: Any,
) -> None:
    five = cluster(5)

    def told() -> set[str]:
        return {name for name, _ in five.watch.instructions()["node-0"].neighbours}

    five.go(10)
    assert told() == {"node-1", "node-2"}
    five.running = False
    five.go(4)
    assert told() == {"node-1", "node-2"}
    five.go(3)
    assert told() == {"node-1", "node-2", "node-3", "node-4"}
    five.running = True
    five.go(2)
    assert told() == {"node-1", "node-2"}


def test_who_was_heard_before_nobody_listened_has_to_be_heard_again() -> None:
    nodes = known(a=2)
    for name in names("a", 2):
        beat = Heartbeat(node=name, incarnation="i", sequence=1, uptime_s=1.0, ranks=())
        nodes.heard(beat, 5.0)
    assert nodes.most_have_reported()
    nodes.unheard(9.0)
    assert not nodes.most_have_reported()
