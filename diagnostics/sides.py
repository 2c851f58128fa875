"""Do the nodes fall into two sides that reach each other badly, each of them well within? Pure.

A switch between racks that is down makes the tests of every pair across it fail. Who met only nodes
of the other side fails each time, and nothing is wrong with it. Called by `stages`.
"""

from collections.abc import Mapping, Sequence
from itertools import islice

import msgspec

from holdfast.diagnostics.answers import Pair

Met = Mapping[Pair, bool]
"""Pairs that met last, in order of their names, and whether all of their tests passed."""

MOST_ODD = 50
"""So many are tried, whether it is only they that contradict: each costs as much as all pairs."""


class Sides(msgspec.Struct, frozen=True):
    """Two sides, as far as pairs that met tell. Nodes that no chain of pairs joins are in different
    `groups`, whose sides have nothing to do with each other."""

    of: dict[str, tuple[int, bool]]  # node to its group, and its side of it
    against: tuple[Pair, ...]  # pairs that contradict it

    @property
    def agree(self) -> bool:
        return not self.against

    def mates(self, node: str) -> set[str]:
        """Who would be on its side, too."""
        mine = self.of.get(node)
        return {name for name, side in self.of.items() if side == mine and name != node}

    def told(self) -> tuple[tuple[str, ...], ...]:
        """Both, the larger one first; none where one node may be all that is wrong."""
        one, other = (sorted(n for n, side in self.of.items() if side == (0, s)) for s in (0, 1))
        if not self.agree or len(one) + len(other) < len(self.of) or min(len(one), len(other)) < 2:
            return ()
        return tuple(sorted((tuple(one), tuple(other)), key=len, reverse=True))


def sides(met: Met) -> Sides:
    """Who passes is on one side, who fails on two: followed from pair to pair. One that failed with
    all may be bad besides: where only it contradicts, it is left out."""
    found = _followed(met)
    if found.agree:
        return found
    odd = islice(sorted(in_vain(met)), MOST_ODD)
    others = (_followed({two: met[two] for two in met if node not in two}) for node in odd)
    return next((each for each in others if each.agree), found)


def _followed(met: Met) -> Sides:
    beside: dict[str, list[tuple[str, bool]]] = {}
    for (one, other), passed in met.items():
        beside.setdefault(one, []).append((other, passed))
        beside.setdefault(other, []).append((one, passed))
    of: dict[str, tuple[int, bool]] = {}
    for group, first in enumerate(node for node in beside if node not in of):
        _follow(first, group, beside, of)
    against = (two for two, passed in met.items() if (of[two[0]] == of[two[1]]) is not passed)
    return Sides(of, tuple(against))


def in_vain(met: Met) -> set[str]:
    """Who failed with all that it met."""
    passed = {node for two, passed in met.items() if passed for node in two}
    return {node for two in met for node in two} - passed


def _follow(
    first: str,
    group: int,
    beside: Mapping[str, Sequence[tuple[str, bool]]],
    of: dict[str, tuple[int, bool]],
) -> None:
    of[first], reached = (group, False), [first]
    for node in reached:  # grows meanwhile
        for other, passed in beside[node]:
            if other not in of:
                of[other] = (group, of[node][1] is passed)
                reached.append(other)
