"""Collectives that do not match: a rank that skips one shifts its group, and nothing hangs. Pure.

Rings keep how many collectives each group had enqueued when certain steps ended, the same steps on
all ranks. Where ranks of a group agreed at one step and differ at a later one, the odd one out is
named: it is user code, and it is only reported (faults.md, 6).
"""

import msgspec

from holdfast.driver.watch.detector import Context, Detector
from holdfast.driver.watch.jobs import JobSeen
from holdfast.driver.watch.model import Expectation, Findings, evidence
from holdfast.protocol.faults import Finding, Kind, Weight
from holdfast.protocol.messages import GroupProgress, Heartbeat

KEPT_STEPS = 16
"""Steps that are kept of each rank: four strides of marks from some heartbeats."""


Counts = dict[int, int]
"""Enqueued, by step. Never written to: ranks that told the same have one together."""

SHARED = 2
"""Of each group, those that ranks told last, and may have together: who is heard of sooner than
others is a step ahead of them."""


class Tally(msgspec.Struct, gc=False):
    """Of one step: how many ranks had enqueued `usual`, as whoever told it first, and how many had
    `others`. Nearly always there are none: a dict for each step of each group would take KBs."""

    usual: int
    alike: int = 1
    held: int = 1  # how many ranks have a mark of the step
    others: dict[int, int] | None = None

    def add(self, count: int) -> None:
        self.held += 1
        if count == self.usual:
            self.alike += 1
        else:
            self.others = self.others or {}
            self.others[count] = self.others.get(count, 0) + 1

    def drop(self, count: int) -> None:
        """One rank less; the first of the others takes the place of what nobody has any more."""
        self.held -= 1
        others = self.others or {}
        if count == self.usual:
            self.alike -= 1
        else:
            others[count] -= 1
            if not others[count]:
                del others[count]
        if not self.alike and others:
            self.usual, self.alike = next(iter(others.items()))
            del others[self.usual]
        self.others = others or None

    def most(self) -> int:
        """What most ranks had; of as many what was told first."""
        known = {self.usual: self.alike, **(self.others or {})}
        return max(known, key=lambda count: known[count])


class Marks(msgspec.Struct, kw_only=True, omit_defaults=True, gc=False):
    """State of one group in one epoch. Filled in place: it is written for each group of each rank
    in each heartbeat, and each mark costs the same however many ranks the group has."""

    counts: dict[int, Counts] = {}  # by rank
    lately: tuple[Counts, ...] = ()  # of these, those told last
    tallies: dict[int, Tally] = {}  # by step
    whole: list[int] = []  # steps of which all ranks have a mark
    size: int = 0  # of the group, where a rank told its members
    agreed: bool = False
    told: bool = False


class Groups(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """State of one job's epoch, by group; filled in place like `Marks`."""

    epoch: int = -1
    groups: dict[int, Marks] = {}


class SkippedCollectives(Detector):
    def __init__(self) -> None:
        self._groups: dict[str, Groups] = {}  # by job

    def heard_of(self, beat: Heartbeat, job: JobSeen, context: Context) -> Findings:
        name = job.expected.job
        before = self._groups.get(name, Groups())
        self._groups[name], findings = judge(before, beat, job.expected)
        return findings

    def drop(self, job: str) -> None:
        self._groups.pop(job, None)


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
    known = marks.counts.get(rank)
    if known is None:
        known = marks.counts[rank] = {}
        marks.whole.clear()  # where the size is not known, what was whole lacks this one
    if all(known.get(step) == count for step, count in group.marks):
        return False
    mine, whole = dict(known), False
    for step, count in group.marks:
        if mine.get(step) != count:
            _drop(marks, mine, step)
            _keep(marks, mine, step, count)
            whole = whole or step in marks.whole
    while len(mine) > KEPT_STEPS:
        _drop(marks, mine, min(mine))
    marks.counts[rank] = _shared(marks, mine)
    return whole


def _shared(marks: Marks, mine: Counts) -> Counts:
    for each in marks.lately:
        if each == mine:
            return each
    marks.lately = (mine, *marks.lately)[:SHARED]
    return mine


def _keep(marks: Marks, mine: Counts, step: int, count: int) -> None:
    mine[step] = count
    if (tally := marks.tallies.get(step)) is None:
        tally = marks.tallies[step] = Tally(count)
    else:
        tally.add(count)
    known = len(marks.counts)
    if tally.held == known >= max(2, marks.size) and step not in marks.whole:
        marks.whole.append(step)


def _drop(marks: Marks, mine: Counts, step: int) -> None:
    if (count := mine.pop(step, None)) is None:
        return
    if step in marks.whole:
        marks.whole.remove(step)
    marks.tallies[step].drop(count)
    if not marks.tallies[step].held:
        del marks.tallies[step]


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
    if not tally.others:
        return {}
    usual = tally.most()
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
        job=expected.job,
        epoch=expected.epoch,
        node=expected.node_of().get(rank) if rank is not None else None,
        rank=rank,
        step=step,
        summary=f"{who} skipped or added a collective by step {step}: values are wrong from there",
        evidence=(evidence("detector", text, step=step),),
    )
