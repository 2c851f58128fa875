"""Collectives that do not match: a rank that skips one shifts its group, and nothing hangs. Pure.

Rings keep how many collectives each group had enqueued when certain steps ended, the same steps on
all ranks. Where ranks of a group agreed at one step and differ at a later one, the odd one out is
named: it is user code, and it is only reported (faults.md, 6).
"""

from collections import Counter

import msgspec

from holdfast.driver.watch.model import Expectation, Findings, evidence
from holdfast.protocol.faults import Blame, Finding, Kind, Weight
from holdfast.protocol.messages import GroupProgress, Heartbeat

KEPT_STEPS = 16
"""Steps that are kept of each rank: four strides of marks from some heartbeats."""


class Marks(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """State of one group in one epoch: enqueued, by rank and step. `counts` is filled in place: it
    is written for each group of each rank in each heartbeat."""

    counts: dict[int, dict[int, int]] = {}
    agreed: bool = False
    told: bool = False


class Groups(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """State of one job's epoch, by group; filled in place like `Marks.counts`."""

    epoch: int = -1
    groups: dict[int, Marks] = {}


def judge(state: Groups, beat: Heartbeat, expected: Expectation) -> tuple[Groups, Findings]:
    """The marks of one heartbeat, against those of the other ranks of each group."""
    groups = state.groups if state.epoch == expected.epoch else {}
    found: list[Finding] = []
    for seen in beat.ranks:
        if (seen.job, seen.epoch) != (expected.job, expected.epoch):
            continue
        for group in seen.groups:
            marks = groups.get(group.members) or Marks(counts={})
            if _added(marks.counts, seen.rank, group):
                groups[group.members], finding = _compared(marks, group, expected)
                found += [finding] if finding is not None else []
    return Groups(epoch=expected.epoch, groups=groups), tuple(found)


def _added(counts: dict[int, dict[int, int]], rank: int, group: GroupProgress) -> bool:
    """Keep the rank's marks; whether there is a new one."""
    mine = counts.setdefault(rank, {})
    before = len(mine)
    mine.update(group.marks)
    grew = len(mine) > before
    while len(mine) > KEPT_STEPS:
        del mine[min(mine)]
    return grew


def _compared(
    marks: Marks, group: GroupProgress, expected: Expectation
) -> tuple[Marks, Finding | None]:
    steps = _common(marks, group)
    if not steps or marks.told:
        return marks, None
    last = _odd(marks, steps[-1])
    if not last:
        return msgspec.structs.replace(marks, agreed=True), None
    # Ranks that never agreed count steps in another way. One step alone may differ for a moment
    # where a thread beside the training talks to its peers; a skipped collective stays skipped.
    if not marks.agreed or len(steps) < 2 or _odd(marks, steps[-2]) != last:
        return marks, None
    told = msgspec.structs.replace(marks, told=True)
    return told, _finding(marks, last, steps[-2], group, expected)


def _common(marks: Marks, group: GroupProgress) -> list[int]:
    """The steps that all known ranks of the group have a mark of; at least two ranks must."""
    members = set(group.ranks) or marks.counts.keys()
    if len(members) < 2 or not members <= marks.counts.keys():
        return []
    return sorted(set.intersection(*(set(marks.counts[rank]) for rank in members)))


def _odd(marks: Marks, step: int) -> dict[int, int]:
    """By how much ranks differ from what most have enqueued when `step` ended."""
    counts = {rank: steps[step] for rank, steps in marks.counts.items()}
    usual = Counter(counts.values()).most_common(1)[0][0]
    return {rank: count - usual for rank, count in counts.items() if count != usual}


def _finding(
    marks: Marks, odd: dict[int, int], step: int, group: GroupProgress, expected: Expectation
) -> Finding:
    counts = {rank: steps[step] for rank, steps in sorted(marks.counts.items())}
    rank = next(iter(odd)) if len(odd) == 1 and len(counts) > 2 else None
    told = ", ".join(f"rank {each}: {count}" for each, count in list(counts.items())[:16])
    who = f"rank {rank}" if rank is not None else f"one of ranks {', '.join(map(str, counts))}"
    text = (
        f"collectives enqueued in group {list(group.ranks[:8])} when step {step} ended: {told}; "
        "they agreed before"
    )
    return Finding(
        kind=Kind.COLLECTIVE_MISMATCH,
        weight=Weight.REPORT,
        blame=Blame.USER,
        job=expected.job,
        epoch=expected.epoch,
        node=expected.node_of().get(rank) if rank is not None else None,
        rank=rank,
        step=step,
        summary=f"{who} skipped or added a collective by step {step}: values are wrong from there",
        evidence=(evidence("detector", text, step=step),),
    )
