"""Which ranks are where: how many there are, on which node each has its place, and which node has
the copies of which. Pure.

Kept by the job; an attempt names the number of the one that it ran in. How ranks lie on places is
known here alone: place i has ranks i*n to i*n + n - 1, so that ranks keep their numbers when a node
is replaced. Every place sends copies to the one so many places further, so that each has the copies
of one other, with which it shares no parallel group where there is such a one.
"""

from collections.abc import Mapping
from functools import lru_cache

from msgspec.structs import replace

from holdfast.driver.core.events import Plan
from holdfast.driver.core.state.value import Value
from holdfast.protocol.messages import Seat
from holdfast.protocol.topology import Axis, Topology


class Layout(Value, frozen=True):
    """`nodes` places with `ranks_per_node` ranks each, and who has them."""

    nodes: int
    ranks_per_node: int
    number: int = 0  # 0: no ranks have run in it yet
    topology: Topology = Topology()
    places: tuple[str, ...] = ()  # the node of each, "" while there is none; empty before any had

    @property
    def world_size(self) -> int:
        return self.nodes * self.ranks_per_node

    def ranks_at(self, place: int) -> tuple[int, ...]:
        """The ranks of a place."""
        return tuple(range(place * self.ranks_per_node, (place + 1) * self.ranks_per_node))

    def ranks_on(self, node: str) -> tuple[int, ...]:
        """The ranks whose place is on `node`."""
        return self.ranks_at(self.places.index(node)) if node in self.places else ()

    def node_of(self, rank: int) -> str:
        """The node that has the rank; "" while there is none."""
        place = rank // self.ranks_per_node
        return self.places[place] if place < len(self.places) else ""

    def told(self, place: int) -> str:
        """The ranks of a place, for people: `rank 3`, or `ranks 6 to 7`."""
        ranks = self.ranks_at(place)
        return f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {ranks[0]} to {ranks[-1]}"

    def seats(self, addresses: Mapping[str, str]) -> tuple[Seat, ...]:
        """The rank table, in rank order. `addresses`: of each node that has a place."""
        return tuple(
            Seat(rank=rank, local_rank=local, node=node, address=addresses[node])
            for place, node in enumerate(self.places)
            for local, rank in enumerate(self.ranks_at(place))
        )

    def with_places(self, places: tuple[str, ...]) -> "Layout":
        """The same ranks on other nodes, which is another layout."""
        return replace(self, number=0, places=places)


def of_plan(plan: Plan) -> Layout:
    """What a plan asks for, before it has any node."""
    return Layout(topology=plan.topology, nodes=plan.nodes, ranks_per_node=plan.ranks_per_node)


TRIED = 64
"""Distances at most: in a grid the groups repeat long before."""


@lru_cache(maxsize=64)
def distance(topology: Topology, places: int, ranks_per_node: int) -> int:
    """From a place to that of its copies, 0 where there is no other: the least at which the fewest
    places share a group with it. (What takes a rack, a switch or a group with it takes no copy.)
    """
    groups = [_groups(topology, place, ranks_per_node) for place in range(places)]

    def sharing(far: int) -> int:
        ahead = groups[far:] + groups[:far]
        return sum(not ours.isdisjoint(theirs) for ours, theirs in zip(groups, ahead, strict=True))

    return min(range(1, min(places, TRIED + 1)), key=sharing, default=0)


def _groups(topology: Topology, place: int, ranks_per_node: int) -> frozenset[int]:
    """Those that a rank of the place is in, along any axis, each by a number of its own."""
    found = set()
    for rank in range(place * ranks_per_node, (place + 1) * ranks_per_node):
        mine = topology.coordinates(rank)
        for nth, axis in enumerate(Axis):
            if topology.size(axis) > 1:
                found.add(len(Axis) * topology.rank(mine | {axis: 0}) + nth)
    return frozenset(found)
