"""Which node has the copies of which: one that shares no parallel group with it, where there is
one. Pure.

Called by whoever says what nodes are to do. Every place sends to the one so many places further, so
that each has the copies of one other.
"""

from functools import lru_cache

from holdfast.protocol.topology import Axis, Topology

TRIED = 64
"""Distances at most: in a grid the groups repeat long before."""


@lru_cache(maxsize=64)
def distance(topology: Topology, places: int, ranks_per_node: int) -> int:
    """From a place to that of its copies, 0 where there is no other: the least at which the fewest
    places share a group with it. (What takes a rack, a switch or a group with it takes no copy.)
    """
    tried = range(1, min(places, TRIED + 1))
    return min(tried, key=lambda far: _sharing(topology, places, ranks_per_node, far), default=0)


def _sharing(topology: Topology, places: int, ranks_per_node: int, far: int) -> int:
    return sum(
        _share(topology, place, (place + far) % places, ranks_per_node) for place in range(places)
    )


def _share(topology: Topology, one: int, other: int, ranks_per_node: int) -> bool:
    """Whether a rank of each is in one group: they differ along one axis only."""

    def at(place: int) -> list[dict[Axis, int]]:
        first = place * ranks_per_node
        return [topology.coordinates(rank) for rank in range(first, first + ranks_per_node)]

    theirs = at(other)
    return any(
        sum(mine[axis] != there[axis] for axis in Axis) == 1 for mine in at(one) for there in theirs
    )
