"""What one node is sent of the rank table: its own seats and how large the whole is. Pure.

Kept by the loop, used by `draft` for each Desired that is ordered, so that journal and connections
carry the parts.
The whole table is 0.9 MB at 16,384 ranks, for each of 2,048 nodes, and all that a rank has to know
of the others is how many there are.
"""

from msgspec.structs import replace

from holdfast.protocol.messages import Desired, Seat

MOST_JOBS = 64
"""Whose tables are kept in parts: a table of another job is taken apart anew."""

ByNode = dict[str, tuple[int, tuple[Seat, ...]]]


class RankTables:
    """Takes a job's table apart by node once, however many nodes are told of it, and when: after a
    restart each of thousands that connects is told.
    """

    def __init__(self) -> None:
        self._parts: dict[str, tuple[tuple[Seat, ...], ByNode]] = {}  # table and parts, by job

    def part(self, desired: Desired) -> Desired:
        """`desired` with the seats of its own node alone, and the sizes set."""
        if not desired.seats:
            return desired
        by_node = self._of(desired.job or "", desired.seats)
        place, own = by_node.get(desired.node, (0, ()))
        return replace(
            desired,
            seats=own,
            world_size=len(desired.seats),
            places=len(by_node),
            place=place,
        )

    def _of(self, job: str, table: tuple[Seat, ...]) -> ByNode:
        if job not in self._parts or self._parts[job][0] is not table:
            while len(self._parts) >= MOST_JOBS:
                del self._parts[next(iter(self._parts))]
            self._parts[job] = table, _by_node(table)
        return self._parts[job][1]


def _by_node(table: tuple[Seat, ...]) -> ByNode:
    """Each node's place, counted by its lowest rank, and its seats in rank order."""
    seats: dict[str, list[Seat]] = {}
    for seat in sorted(table, key=lambda seat: seat.rank):
        seats.setdefault(seat.node, []).append(seat)
    return {node: (place, tuple(own)) for place, (node, own) in enumerate(seats.items())}
