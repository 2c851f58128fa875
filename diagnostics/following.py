"""Who is tested in the next stage, beside whom. Pure.

Used where tests go in stages: by the driver where a person wants to know, and by
`bench.diagnostics`. What the stages say is `stages`' to judge.
"""

from collections import defaultdict
from collections.abc import Collection, Sequence
from itertools import pairwise

import msgspec

from holdfast.diagnostics.answers import Pair
from holdfast.diagnostics.plan import partners
from holdfast.diagnostics.sides import Sides, in_vain, sides
from holdfast.diagnostics.stages import Stage, least_of, ways
from holdfast.diagnostics.thresholds import Known
from holdfast.diagnostics.verdict import Verdict

MOST = 3
"""Stages of one diagnosis: the second convicts; the third is for who stood between two bad ones, or
met a result that was a lie."""


class Next(msgspec.Struct, frozen=True):
    """The stage that follows: whom it is about, who helps, and which pairs meet besides. Nobody
    where all is settled, or nobody sound can help."""

    tested: tuple[str, ...] = ()
    helpers: tuple[str, ...] = ()
    again: tuple[Pair, ...] = ()


def following(
    stages: Sequence[Stage],
    verdict: Verdict,
    there: Collection[str],
    known: Known | None = None,
) -> Next:
    """What comes next, with those that are `there`.

    Who failed with all it met meets those that it would be with if nothing were wrong but the way
    between two sides; pairs that are apart, or contradict the others, meet once more.
    """
    met = ways(stages, least_of(stages, known))
    split, failed = sides(met), in_vain(met)

    def order(node: str) -> tuple[bool, tuple[int, bool], str]:
        return node not in failed, split.of.get(node, (0, False)), node

    tested = sorted((node for node in verdict.unsettled if node in there), key=order)
    taken = {*verdict.unsettled, *verdict.bad}
    met_all = dict.fromkeys(node for stage in stages for node in stage.orders)
    sound = [node for node in met_all if node in there and node not in taken]
    helpers = _beside(tested, sound, split, _met(stages, tested))
    if not (tested and helpers) or len(stages) >= MOST:
        return Next()
    mates = pairwise(node for node in tested if node in failed)
    return Next(tuple(tested), helpers, (*mates, *split.against, *verdict.apart))


def _beside(
    tested: Sequence[str], sound: Sequence[str], split: Sides, met: Collection[str]
) -> tuple[str, ...]:
    """Two for each in turn: of its own side, and not met before, where there are such."""
    free: dict[object, list[str]] = defaultdict(list)
    for node in sorted(sound, key=met.__contains__):
        free[split.of.get(node)].append(node)
    chosen = {node: _taken(free[split.of.get(node)]) for node in tested}
    rest = [node for mine in free.values() for node in mine]
    rest.sort(key=met.__contains__)
    for mine in chosen.values():
        mine.extend(_taken(rest, 2 - len(mine)))
    return partners(tested, [*(node for mine in chosen.values() for node in mine), *rest])


def _taken(free: list[str], most: int = 2) -> list[str]:
    """The first of them, which are free no more."""
    mine = free[:most]
    del free[:most]
    return mine


def _met(stages: Sequence[Stage], nodes: Collection[str]) -> set[str]:
    """With whom these were tested."""
    each = (order for stage in stages for node in nodes for order in stage.orders.get(node, ()))
    return {name for order in each for name in order.members}.difference(nodes)
