"""Of which axis a collective or a message is: of data, pipeline or tensor parallelism. Pure.

Spans know their group by a number made of its members. Where the job says how it is parallel, the
groups of a rank along each axis are known, and so are their numbers.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from holdfast.protocol.groups import members_hash
from holdfast.protocol.spans import P2P
from holdfast.protocol.topology import Axis, Topology
from holdfast.traces.model import Span

MOST_ALIKE = 8
"""Groups of the same members that are told: DDP and others make their own beside a script's."""


class Axes:
    """Of one job. `topologies`: how its ranks are laid out, of now and as declared; where they
    differ, the first one that knows a group tells."""

    def __init__(self, *topologies: Topology) -> None:
        self._topologies = tuple(dict.fromkeys(topologies))
        self._known: dict[tuple[int, int], str] = {}

    def named(self, span: Span) -> Span:
        """The same with its axis, where it is of one."""
        axis = self.of(span.rank, span.kind, span.name, span.group)
        return replace(span, axis=axis) if axis else span

    def of(self, rank: int, kind: str, name: str, group: int) -> str:
        """ "dp", "pp" or "tp"; "" where it is of none, of several, or nobody knows."""
        if group:
            return self._once(rank, group)
        peer = name.rpartition(" ")[2]
        if kind != P2P or not (peer.isascii() and peer.isdigit()):
            return ""
        return next(
            filter(None, (_between(each, rank, int(peer)) for each in self._topologies)), ""
        )

    def _once(self, rank: int, group: int) -> str:
        """Two ranks of a group know the same of it, unless one is of no topology."""
        if (rank, group) not in self._known:
            found = (_along(each, rank, group) for each in self._topologies)
            self._known[rank, group] = next(filter(None, found), "")
        return self._known[rank, group]


NONE = Axes()
"""Of a job of which nobody knows how it is parallel."""


def _along(topology: Topology, rank: int, group: int) -> str:
    if rank >= topology.world_size:
        return ""
    for axis in _used(topology):
        members = topology.group(rank, axis)
        if any(members_hash(members, ordinal) == group for ordinal in range(MOST_ALIKE)):
            return axis.value
    return ""


def _between(topology: Topology, rank: int, peer: int) -> str:
    """The one axis along which they differ."""
    if max(rank, peer) >= topology.world_size:
        return ""
    mine, its = topology.coordinates(rank), topology.coordinates(peer)
    differ = [axis.value for axis in Axis if mine[axis] != its[axis]]
    return differ[0] if len(differ) == 1 else ""


def _used(topology: Topology) -> Sequence[Axis]:
    return [axis for axis in Axis if topology.size(axis) > 1]
