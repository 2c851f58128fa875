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


class Marks(msgspec.Struct, kw_only=True, omit_defaults=True):
    """State of one group in one epoch. Filled in place: it is written for each group of each rank
    in each heartbeat, and each mark costs the same however many ranks the group has."""

    counts: dict[int, dict[int, int]] = {}  # enqueued, by rank and step
    tallies: dict[int, Counter[int]] = {}  # by step: how many ranks had enqueued so many
    held: dict[int, int] = {}  # by step: how many ranks have a mark of it
    whole: set[int] = set()  # steps of which all ranks have one
    size: int = 0  # of the group, where a rank told its members
    agreed: bool = False
    told: bool = False


class Groups(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """State of one job's epoch, by group; filled in place like `Marks`."""

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
            marks = groups.setdefault(group.members, Marks())
            if _added(marks, seen.rank, group):
                finding = _compared(marks, group, expected)
                found += [finding] if finding is not None else []
    return Groups(epoch=expected.epoch, groups=groups), tuple(found)


def _added(marks: Marks, rank: int, group: GroupProgress) -> bool:
    """Keep the rank's marks; whether all ranks now have one of a step that some lacked before."""
    marks.size = marks.size or len(group.ranks)
    if rank not in marks.counts:
        marks.counts[rank] = {}
        marks.whole.clear()  # where the size is not known, what was whole lacks this one
    mine, whole = marks.counts[rank], False
    for step, count in group.marks:
        if mine.get(step) != count:
            _drop(marks, mine, step)
            _keep(marks, mine, step, count)
            whole = whole or step in marks.whole
    while len(mine) > KEPT_STEPS:
        _drop(marks, mine, min(mine))
    return whole


def _keep(marks: Marks, mine: dict[int, int], step: int, count: int) -> None:
    mine[step] = count
    marks.tallies.setdefault(step, Counter())[count] += 1
    held = marks.held[step] = marks.held.get(step, 0) + 1
    known = len(marks.counts)
    if held == known and known >= max(2, marks.size):
        marks.whole.add(step)


def _drop(marks: Marks, mine: dict[int, int], step: int) -> None:
    if (count := mine.pop(step, None)) is None:
        return
    marks.whole.discard(step)
    marks.held[step] -= 1
    tally = marks.tallies[step]
    tally[count] -= 1
    if not tally[count]:
        del tally[count]
    if not marks.held[step]:
        del marks.held[step], marks.tallies[step]


def _compared(marks: Marks, group: GroupProgress, expected: Expectation) -> Finding | None:
    """What the last two steps tell that all ranks have a mark of."""
    steps = sorted(marks.whole)
    if marks.told or not steps:
        return None
    last = _odd(marks, steps[-1])
    if not last:
        marks.agreed = True
        return None
    # Ranks that never agreed count steps in another way. One step alone may differ for a moment
    # where a thread beside the training talks to its peers; a skipped collective stays skipped.
    if not marks.agreed or len(steps) < 2 or _odd(marks, steps[-2]) != last:
        return None
    marks.told = True
    return _finding(marks, last, steps[-2], group, expected)


def _odd(marks: Marks, step: int) -> dict[int, int]:
    """By how much ranks differ from what most have enqueued when `step` ended."""
    tally = marks.tallies[step]
    if len(tally) == 1:
        return {}
    usual = tally.most_common(1)[0][0]
    counts = {rank: steps[step] for rank, steps in marks.counts.items()}
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
