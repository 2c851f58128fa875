"""Lanes of PCIe: fewer than before, or than elsewhere, are told once; kinds of machines are not."""

from holdfast.driver.watch.detector import Context
from holdfast.driver.watch.model import Settings
from holdfast.driver.watch.narrow_bus import NarrowBuses
from holdfast.protocol.faults import Kind, Weight
from holdfast.protocol.messages import Gpu, Heartbeat, NicRates

CONTEXT = Context(settings=Settings())
NIC = "mlx5_0/1"


def beat(node: str, nic: int | None = 16, gpu: int | None = None) -> Heartbeat:
    return Heartbeat(
        node=node,
        incarnation="a",
        sequence=1,
        uptime_s=1.0,
        nics=(NicRates(name=NIC, lanes=nic),),
        gpus=() if gpu is None else (Gpu(index=2, lanes=gpu),),
    )


def told(buses: NarrowBuses, *beats: Heartbeat) -> list[str]:
    return [found.summary for each in beats for found in buses.heard(each, CONTEXT)]


def test_fewer_than_before_are_told_once_and_again_after_they_were_back() -> None:
    buses = NarrowBuses()
    assert told(buses, beat("a")) == []
    (found,) = buses.heard(beat("a", 8), CONTEXT)
    assert (found.kind, found.weight, found.node) == (Kind.BUS_NARROW, Weight.REPORT, "a")
    assert found.summary == "mlx5_0/1 of a has 8 lanes of PCIe, and 16 before"
    assert told(buses, beat("a", 8), beat("a", None), beat("a")) == []
    assert len(told(buses, beat("a", 8))) == 1


def test_fewer_than_on_most_other_nodes_are_told_whoever_came_first() -> None:
    buses = NarrowBuses()
    assert told(buses, beat("a", gpu=8), beat("b", gpu=16), beat("c", gpu=16)) == []
    assert told(buses, beat("d", gpu=16)) == []
    assert told(buses, beat("a", gpu=8)) == [
        "GPU 2 of a has 8 lanes of PCIe, and 16 on most other nodes"
    ]
    assert told(buses, beat("a", gpu=8), beat("b", gpu=16)) == []


def test_two_kinds_of_machines_are_no_rule() -> None:
    buses = NarrowBuses()
    nodes = [beat(f"n{n}", 16 if n % 2 else 8) for n in range(20)]
    assert told(buses, *nodes, *nodes) == []


def test_a_node_that_is_gone_is_forgotten() -> None:
    buses = NarrowBuses()
    assert told(buses, beat("a")) == []
    buses.gone("a")
    assert told(buses, beat("a", 8)) == []
