"""Where a rank stands in the (dp, pp, tp) grid, and which ranks form a group. Pure."""

from collections.abc import Sequence
from enum import StrEnum
from itertools import product
from math import prod

import msgspec


class Axis(StrEnum):
    """A way in which a job is parallel."""

    DP = "dp"
    PP = "pp"
    TP = "tp"


DEFAULT_ORDER: tuple[Axis, ...] = (Axis.TP, Axis.DP, Axis.PP)
"""Fastest-varying axis first: tensor groups inside a node, data-parallel groups before pipeline
groups (MegaScale, NSDI'24, sec. 3 and training.md row 28)."""


class Topology(msgspec.Struct, frozen=True, kw_only=True):
    """Sizes of the axes and their order, fastest-varying first."""

    dp: int = 1
    pp: int = 1
    tp: int = 1
    order: tuple[Axis, ...] = DEFAULT_ORDER

    def size(self, axis: Axis) -> int:
        return {Axis.DP: self.dp, Axis.PP: self.pp, Axis.TP: self.tp}[axis]

    @property
    def world_size(self) -> int:
        return prod(self.size(axis) for axis in Axis)

    def coordinates(self, rank: int) -> dict[Axis, int]:
        """The place of `rank` on each axis. Raises `ValueError` outside the world."""
        if not 0 <= rank < self.world_size:
            raise ValueError(f"rank {rank} is not in a world of {self.world_size}")
        place: dict[Axis, int] = {}
        for axis in self.order:
            rank, place[axis] = divmod(rank, self.size(axis))
        return place

    def rank(self, place: dict[Axis, int]) -> int:
        """The rank that stands at `place`; the inverse of `coordinates`."""
        rank = 0
        for axis in reversed(self.order):
            rank = rank * self.size(axis) + place[axis]
        return rank

    def group(self, rank: int, *axes: Axis) -> tuple[int, ...]:
        """All ranks that differ from `rank` along `axes` only, in rank order, itself among them."""
        mine = self.coordinates(rank)
        places = product(*(range(self.size(axis)) for axis in axes))
        return tuple(
            sorted(self.rank(mine | dict(zip(axes, place, strict=True))) for place in places)
        )

    def groups(self, *axes: Axis) -> tuple[tuple[int, ...], ...]:
        """Every group along `axes`, by its first rank."""
        members: dict[tuple[int, ...], list[int]] = {}
        fixed = [axis for axis in self.order if axis not in axes]
        for rank in range(self.world_size):
            place = self.coordinates(rank)
            members.setdefault(tuple(place[axis] for axis in fixed), []).append(rank)
        return tuple(sorted(map(tuple, members.values())))


def ranks_by_node(nodes: Sequence[str], ranks_per_node: int) -> dict[str, tuple[int, ...]]:
    """Consecutive ranks for each node, in the order given."""
    return {
        node: tuple(range(place * ranks_per_node, (place + 1) * ranks_per_node))
        for place, node in enumerate(nodes)
    }
