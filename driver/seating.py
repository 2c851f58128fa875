"""What one node is sent of the rank table: its own seats and how large the whole is. Pure.

Used by `draft` for each Desired that is ordered, so that journal and connections carry the parts.
The whole table is 0.9 MB at 16,384 ranks, for each of 2,048 nodes, and all that a rank has to know
of the others is how many there are.
"""

from msgspec.structs import replace

from holdfast.protocol.messages import Desired, Seat


class Seating:
    """Takes a table apart by node once, however many nodes are told of it one after another."""

    def __init__(self) -> None:
        self._table: tuple[Seat, ...] = ()
        self._by_node: dict[str, tuple[int, tuple[Seat, ...]]] = {}

    def part(self, desired: Desired) -> Desired:
        """`desired` with the seats of its own node alone, and the sizes set."""
        if not desired.seats:
            return desired
        if desired.seats is not self._table:
            self._table, self._by_node = desired.seats, _by_node(desired.seats)
        place, own = self._by_node.get(desired.node, (0, ()))
        return replace(
            desired,
            seats=own,
            world_size=len(desired.seats),
            places=len(self._by_node),
            place=place,
        )


def _by_node(table: tuple[Seat, ...]) -> dict[str, tuple[int, tuple[Seat, ...]]]:
    """Each node's place, counted by its lowest rank, and its seats in rank order."""
    seats: dict[str, list[Seat]] = {}
    for seat in sorted(table, key=lambda seat: seat.rank):
        seats.setdefault(seat.node, []).append(seat)
    return {node: (place, tuple(own)) for place, (node, own) in enumerate(seats.items())}
