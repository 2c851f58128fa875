"""What is around the simulated driver: its effects come into the world here, and are looked at.

Made by `simulate`; see `driver.Outside`.
"""

from holdfast.driver.core import events as e
from holdfast.driver.core.state.model import State
from holdfast.driver.core.turn import Decision
from holdfast.lab.simulator import cluster, connections, processes
from holdfast.lab.simulator.driver import Driver
from holdfast.lab.simulator.rules.check import check
from holdfast.lab.simulator.scenario import Scenario
from holdfast.lab.simulator.world import World
from holdfast.protocol.messages import Desired


class Effects:
    """The world, as its driver reaches it."""

    def __init__(self, world: World) -> None:
        self._world = world

    def list_nodes(self) -> None:
        cluster.list_nodes(self._world)

    def has_line(self, node: str) -> bool:
        executor = self._world.machines[node].executor
        return executor is not None and executor.connected

    def tell(self, desired: Desired) -> None:
        connections.tell(self._world, desired)

    def call(self, node: str, outcome: e.AnyEvent, *, trial: bool = False) -> None:
        if trial:
            self._world.holders.lend(node, outcome.cause)
        cluster.call(self._world, node, outcome)

    def committed(self, before: State, event: e.AnyEvent, decision: Decision) -> None:
        check(self._world, before, event, decision, self._world.now)
        self._world.books.committed(before, decision, self._world.now)

    def died(self) -> None:
        processes.driver_died(self._world)


def driver_of(world: World) -> Driver:
    """The driver of a world."""
    return Driver(Effects(world), world.agenda, world.streams, world.scenario.policy)


def world_of(scenario: Scenario) -> World:
    """A world with its driver, in which nothing has happened yet."""
    world = World(scenario)
    world.driver = driver_of(world)
    return world
