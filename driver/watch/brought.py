"""Which ranks were the first to bring no numbers into a reduction, when their peers did. Pure.

Used by `loss_not_a_number`. All ranks of a group enqueue the same collectives, so that one number
means the same moment on all: who brought NaN into one into which its peers brought numbers had it
before them, though the loss is told of all, or some steps later.
"""

from collections.abc import Mapping
from typing import NamedTuple

from msgspec.structs import replace

from holdfast.driver.watch.jobs import RankSeen
from holdfast.driver.watch.model import evidence
from holdfast.protocol.faults import Evidence
from holdfast.protocol.messages import GroupProgress

Group = dict[int, GroupProgress]
"""One group, as each of its ranks tells of it."""


class Brought(NamedTuple):
    """What the first rank of a group brought, and into which collective."""

    number: int
    step: int
    ranks: frozenset[int]
    peers: frozenset[int]  # who brought numbers into it


def first(seen: Mapping[int, RankSeen], good: int, since: int) -> dict[int, Brought]:
    """By rank, in the first step from `good` on, up to `since`, in which any brought none. Empty
    where that is not known, or where all of a group did so at once."""
    groups = _of_first_step(_by_group(seen, good, since))
    told = [_first(by_rank) for by_rank in groups]
    if any(each is None for each in told):
        return {}
    sure = [each for each in told if each is not None]
    cleared = {rank for each in sure for rank in each.peers}
    return {rank: each for each in sure for rank in each.ranks - cleared}


def _by_group(seen: Mapping[int, RankSeen], good: int, since: int) -> list[Group]:
    """What began before, or later, is of something else: of these ranks it is not known then."""
    groups: dict[int, Group] = {}
    for rank, each in seen.items():
        for group in each.progress.groups:
            other = group.bad and not good <= group.bad_step <= since
            groups.setdefault(group.members, {})[rank] = replace(group, bad=0) if other else group
    return list(groups.values())


def _of_first_step(groups: list[Group]) -> list[Group]:
    began = {at: step for at, each in enumerate(groups) if (step := _began(each)) is not None}
    return [groups[at] for at, step in began.items() if step == min(began.values())]


def _began(group: Group) -> int | None:
    return min((each.bad_step for each in group.values() if each.bad), default=None)


def _first(group: Group) -> Brought | None:
    number = min(each.bad for each in group.values() if each.bad)
    ranks = frozenset(rank for rank, each in group.items() if each.bad == number)
    members = {rank for each in group.values() for rank in each.ranks}
    peers = frozenset(rank for rank, each in group.items() if each.good >= number) - ranks
    if not peers or ranks | peers != members:
        return None
    step = min(group[rank].bad_step for rank in ranks)
    return Brought(number, step, ranks, peers)


def evidence_of(rank: int, node: str, what: Brought) -> Evidence:
    peers = f"{len(what.peers)} other{'s' if len(what.peers) > 1 else ''}"
    text = (
        f"brought no numbers into collective #{what.number} at step {what.step}, before they were "
        f"summed; {peers} brought numbers into it"
    )
    return evidence(f"rank {rank} on {node}", text, number=what.number, step=what.step)
