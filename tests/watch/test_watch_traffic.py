"""Bytes of nodes that train, by step: what changes is told, and what a script does is not."""

from collections.abc import Callable
from typing import Any

import pytest

from holdfast.driver.watch import Expectation, traffic
from holdfast.protocol.faults import Finding, Kind, Weight
from holdfast.protocol.messages import Heartbeat, NicRates, RankProgress, Seat

NODES = ("node-0", "node-1", "node-2")
RAILS = ("mlx5_0/1", "mlx5_1/1")
GB = 1e9
LEARNED_S = (traffic.LEARNED + 1) * traffic.WINDOW_S


class Fleet:
    """Nodes with two rails each; a heartbeat every .5 s, a step every .25 s."""

    def __init__(self, nodes: tuple[str, ...] = NODES) -> None:
        self.flows: traffic.Nodes = {}
        self.now, self.step = 0.0, 0
        self.rate: Callable[[str, str], tuple[float, float]] = lambda node, nic: (GB, GB)
        self.epoch = 0
        self.begin(nodes)

    def begin(self, nodes: tuple[str, ...]) -> None:
        self.nodes, self.epoch = nodes, self.epoch + 1
        seats = tuple(Seat(rank=n, local_rank=0, node=x, address="") for n, x in enumerate(nodes))
        self.expected = Expectation(job="job", epoch=self.epoch, seats=seats)

    def go(self, seconds: float, steps: int = 2) -> list[Finding]:
        found: list[Finding] = []
        for _ in range(int(seconds / 0.5)):
            self.now, self.step = self.now + 0.5, self.step + steps
            for rank, node in enumerate(self.nodes):
                found += traffic.judge(self.flows, self._beat(rank, node), self.expected, self.now)
        return found

    def _beat(self, rank: int, node: str) -> Heartbeat:
        rates = {nic: self.rate(node, nic) for nic in RAILS}
        nics = tuple(
            NicRates(name=nic, sent_bytes_per_s=sent, received_bytes_per_s=received)
            for nic, (sent, received) in rates.items()
        )
        seen = RankProgress(rank=rank, epoch=self.epoch, job="job", step=self.step)
        fields: dict[str, Any] = {"node": node, "incarnation": "a", "sequence": 1, "uptime_s": 1.0}
        return Heartbeat(**fields, ranks=(seen,), nics=nics)


@pytest.fixture
def fleet() -> Fleet:
    made = Fleet()
    assert made.go(LEARNED_S) == []
    return made


@pytest.mark.parametrize(
    ("rate", "text"),
    [
        (lambda nic: (0.0, 0.0), "it moves 0 MB a step, and before 1e+03"),
        (lambda nic: (0.2 * GB, 0.2 * GB), "it moves 200 MB a step, and before 1e+03"),
        (lambda nic: (GB, 0.1 * GB), "it receives 9% of the bytes that it moves, and before 50%"),
        (
            lambda nic: (1.8 * GB, 1.8 * GB) if nic == RAILS[0] else (0.2 * GB, 0.2 * GB),
            "it moves 10% of its bytes by mlx5_1/1, and before 50%",
        ),
    ],
    ids=["stops", "declines", "one direction", "one rail"],
)
def test_a_node_whose_traffic_changes_while_steps_go_on_is_told_once(
    fleet: Fleet, rate: Callable[[str], tuple[float, float]], text: str
) -> None:
    fleet.rate = lambda node, nic: rate(nic) if node == "node-1" else (GB, GB)
    (found,) = fleet.go(200)
    assert (found.kind, found.weight, found.node) == (Kind.TRAFFIC, Weight.REPORT, "node-1")
    assert found.summary == f"traffic of node-1 has changed while its steps go on: {text}"


@pytest.mark.parametrize("nodes", [NODES[:2], (*NODES, "node-3", "node-4")], ids=len)
def test_of_two_nodes_one_is_told_and_nodes_of_an_attempt_before_do_not_count(
    nodes: tuple[str, ...],
) -> None:
    fleet = Fleet(nodes)
    fleet.go(LEARNED_S)
    fleet.rate = lambda node, nic: (0.0, 0.0) if node in nodes[2:] else (GB, GB)
    fleet.go(200)
    fleet.begin(NODES[:2])
    fleet.rate = lambda node, nic: (GB, GB)
    assert fleet.go(LEARNED_S) == []
    fleet.rate = lambda node, nic: (GB, GB) if (node, nic) != ("node-1", RAILS[1]) else (0.0, 0.0)
    assert [each.node for each in fleet.go(200)] == ["node-1"]
    fleet.begin(NODES[:2])
    fleet.rate = lambda node, nic: (GB, GB)
    fleet.go(LEARNED_S)
    fleet.rate = lambda node, nic: (0.2 * GB, 0.2 * GB)
    assert fleet.go(200) == []


def test_what_all_nodes_do_is_the_scripts(fleet: Fleet) -> None:
    fleet.rate = lambda node, nic: (0.2 * GB, 0.2 * GB)
    assert fleet.go(200) == []


def test_an_evaluation_and_steps_that_are_half_as_fast_move_as_much_a_step(fleet: Fleet) -> None:
    fleet.rate = lambda node, nic: (0.0, 0.0) if node == "node-1" else (GB, GB)
    found = fleet.go(60, steps=0)
    fleet.rate = lambda node, nic: (GB / 2, GB / 2)
    assert found + fleet.go(200, steps=1) == []


def test_saves_to_a_store_while_it_learns_are_not_missed_later() -> None:
    fleet = Fleet()
    fleet.rate = lambda node, nic: (GB + 20 * GB * (fleet.now < 20), GB)
    assert fleet.go(LEARNED_S + 200) == []


def test_a_job_that_hardly_talks_is_not_looked_at() -> None:
    fleet = Fleet()
    fleet.rate = lambda node, nic: (1e5, 1e5)
    fleet.go(LEARNED_S)
    fleet.rate = lambda node, nic: (0.0, 1e3)
    assert fleet.go(200) == []
