"""Ranks of one group that were in different collectives at one number of it. Pure.

What a rank that stands still, or is gone, had enqueued last is laid beside what the others had. The
first number at which they differ names the odd one out: what it called cannot meet what the others
did, whoever of them waits or dies of that. It is user code; it is reported, and explains what
follows (faults.md, 5 and 6).
"""

from collections import Counter
from collections.abc import Mapping

import msgspec

from holdfast.driver.watch.model import Expectation, Findings, evidence
from holdfast.protocol.faults import Blame, Finding, Kind, Weight
from holdfast.protocol.messages import Collective, GroupProgress, Heartbeat, RankProgress

UNCOUNTED = frozenset({"collectives", "groups full"})
"""What a rank lacks whose numbers are not those of its peers."""

FIX = "Let all ranks of a group call the same collectives, in one order, with equal sizes."


class Odd(msgspec.Struct, frozen=True, kw_only=True):
    """`rank`: who differs from all others; None: of two, or of two halves, nobody can tell."""

    rank: int | None
    text: str


class Unlike(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """State of one job's epoch: by group and rank, what was told; and what came of it."""

    epoch: int = -1
    seen: Mapping[int, Mapping[int, tuple[Collective, ...]]] = {}
    odd: Odd | None = None


def judge(state: Unlike, beat: Heartbeat, expected: Expectation) -> tuple[Unlike, Findings]:
    """What one heartbeat adds. At most one finding an epoch."""
    if state.epoch != expected.epoch:
        state = Unlike(epoch=expected.epoch)
    telling = [seen for seen in beat.ranks if seen.recent and _counts(seen, expected)]
    if state.odd is not None or not telling:
        return state, ()
    state = msgspec.structs.replace(state, seen=_with(state.seen, telling))
    for seen in telling:
        for group in seen.groups:
            odd = _compared(state.seen.get(group.members, {}), group)
            if odd is not None:
                found = (_finding(odd, expected),)
                return msgspec.structs.replace(state, odd=odd), found
    return state, ()


def _counts(seen: RankProgress, expected: Expectation) -> bool:
    mine = (seen.job, seen.epoch) == (expected.job, expected.epoch)
    return mine and not UNCOUNTED & set(seen.partial)


def _with(
    before: Mapping[int, Mapping[int, tuple[Collective, ...]]], telling: list[RankProgress]
) -> dict[int, dict[int, tuple[Collective, ...]]]:
    after = {group: dict(ranks) for group, ranks in before.items()}
    for seen in telling:
        for recent in seen.recent:
            after.setdefault(recent.members, {})[seen.rank] = recent.collectives
    return after


def _compared(ranks: Mapping[int, tuple[Collective, ...]], group: GroupProgress) -> Odd | None:
    """The first number at which ranks that tell of it differ."""
    told: dict[int, dict[int, Collective]] = {}
    for rank, collectives in ranks.items():
        for each in collectives:
            told.setdefault(each.number, {})[rank] = each
    unlike = (number for number in sorted(told) if len(set(told[number].values())) > 1)
    number = next(unlike, None)
    return None if number is None else _odd(number, told[number], group)


def _odd(number: int, told: dict[int, Collective], group: GroupProgress) -> Odd:
    usual, count = Counter(told.values()).most_common(1)[0]
    others = [rank for rank, each in sorted(told.items()) if each != usual]
    place = f"as collective #{number} of group {list(group.ranks[:8]) or sorted(told)[:8]}"
    if len(others) == 1 and count > 1:
        (rank,) = others
        return Odd(rank=rank, text=f"rank {rank} called {_differs(told[rank], usual)} {place}")
    one, other = min(rank for rank in told if told[rank] == usual), others[0]
    mine = told[other]
    if mine.kind == usual.kind:
        text = f"ranks {one} and {other} called {usual.kind} of different sizes {place}"
    else:
        text = f"rank {one} called {usual.kind} and rank {other} {mine.kind} {place}"
    return Odd(rank=None, text=text)


def _differs(mine: Collective, usual: Collective) -> str:
    if mine.kind == usual.kind:
        return f"{mine.kind} of another size than its peers"
    return f"{mine.kind} where its peers called {usual.kind}"


def _finding(odd: Odd, expected: Expectation) -> Finding:
    node = expected.node_of().get(odd.rank) if odd.rank is not None else None
    return Finding(
        kind=Kind.COLLECTIVE_MISMATCH,
        weight=Weight.REPORT,
        blame=Blame.USER,
        job=expected.job,
        epoch=expected.epoch,
        node=node,
        rank=odd.rank,
        summary=f"{odd.text}: these never meet",
        evidence=(evidence("detector", odd.text),),
        fix=FIX,
    )
