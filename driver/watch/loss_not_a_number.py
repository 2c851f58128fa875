"""A loss that stays no number on all ranks that tell one (faults.md, 9): the job goes back. Pure.

One step, or a few, are healthy: a scaler skips steps that overflow, and goes on. Each rank counts
since when what it tells is no number, so that no step is missed between heartbeats.
"""

import msgspec

from holdfast.driver.watch import brought
from holdfast.driver.watch.brought import Brought
from holdfast.driver.watch.jobs import JobSeen
from holdfast.driver.watch.model import evidence
from holdfast.protocol.faults import Evidence, Finding, Kind, Weight
from holdfast.protocol.messages import BadLoss, Heartbeat, RankProgress

TOLD = 3
"""Losses in a row that are no number before it is said, or acted on: some scripts tell one only now
and then."""
STEPS = 20
"""Steps from the first to the last that was told, before it is acted on. A `GradScaler` of torch
begins at 2**16 and halves at each step that it skips: after 16 in a row it scales by 1."""
KNOWN = 20
"""Numbers that a rank must have told before: one that tells none says so that it has no loss, as
all stages of a pipeline but the last."""
MARGIN = 2
"""Steps before the last good loss whose state is not trusted: that loss is of the state before its
own step, and scripts may count from 0 what they save as 1."""
SHOWN = 8
"""Ranks that the evidence names."""


class NotANumber(msgspec.Struct):
    """Of one epoch: how the loss of each rank is that tells one. Written in place."""

    well: set[int] = set()
    bad: dict[int, BadLoss] = {}
    waits: set[int] = set()  # of these, who has told too few
    found: bool = False
    said: bool = False


def hear(known: NotANumber, beat: Heartbeat, job: JobSeen) -> None:
    """What the ranks of one node tell."""
    expected = job.expected
    for each in beat.ranks:
        if (each.job, each.epoch) != (expected.job, expected.epoch) or each.loss is None:
            continue
        known.well.discard(each.rank)
        known.waits.discard(each.rank)
        known.bad.pop(each.rank, None)
        _sort(known, each, strict=expected.loss_again)


def _sort(known: NotANumber, seen: RankProgress, *, strict: bool) -> None:
    if seen.bad_loss is None:
        known.well.add(seen.rank)
    elif strict or seen.bad_loss.goods >= KNOWN:
        known.bad[seen.rank] = seen.bad_loss
        if not _lasts(seen.bad_loss):
            known.waits.add(seen.rank)


def _lasts(bad: BadLoss, steps: int = STEPS) -> bool:
    """By what was told: of steps after that nobody knows whether it is a number again."""
    return bad.told >= TOLD and bad.last - bad.since + 1 >= steps


def judge(known: NotANumber, job: JobSeen) -> Finding | None:
    """Once all ranks are heard of, and none that tells a loss tells a number."""
    heard = len(job.ranks) >= len(job.expected.seats)
    if known.found or known.well or known.waits or not (known.bad and heard):
        return None
    known.found = True
    return _finding(known.bad, job)


def only_some(known: NotANumber, beat: Heartbeat, job: JobSeen) -> Finding | None:
    """Where it lasts on some ranks, and will not be that of all: for the others tell numbers, or
    nobody has told one before. It is said, and no more."""
    expected = job.expected
    heard = len(job.ranks) >= len(expected.seats)
    for each in beat.ranks if heard and not (known.said or known.found) else ():
        bad = each.bad_loss
        own = bad is not None and (each.job, each.epoch) == (expected.job, expected.epoch)
        if bad is None or not own or not _lasts(bad, 2 * STEPS):
            continue
        if bad.goods or not known.well:
            known.said = True
            return _said(each, bad, job)
    return None


def _said(seen: RankProgress, bad: BadLoss, job: JobSeen) -> Finding:
    told = _evidence(seen.rank, bad, job)
    return Finding(
        kind=Kind.LOSS,
        weight=Weight.REPORT,
        job=job.expected.job,
        epoch=job.expected.epoch,
        step=seen.step,
        summary=f"the loss of {told.source} is no number since step {bad.since}: nothing is done, "
        + ("for it is not so on all ranks" if bad.goods else "for it told none before"),
        evidence=(told,),
    )


def _finding(bad: dict[int, BadLoss], job: JobSeen) -> Finding:
    since = min(each.since for each in bad.values())
    start = job.expected.start  # with no number since then, nothing that was saved since is trusted
    good = min(each.good if each.goods else start for each in bad.values())
    seen = brought.first(job.ranks, good, since)
    first = sorted(seen) or [rank for rank in sorted(bad) if bad[rank].since == since]
    node = _alone_there(first, job) if seen else _alone(first, bad, job)
    where = f", and began on {_ranks(first)} of {node}" if node else ""
    return Finding(
        kind=Kind.LOSS,
        weight=Weight.RESTART,
        job=job.expected.job,
        epoch=job.expected.epoch,
        node=node,
        rank=first[0] if node and len(first) == 1 else None,
        step=job.heard_step(),
        sound=max(0, good - MARGIN),
        summary=f"the loss is no number since step {since} on {_all(bad, job)}{where}",
        evidence=_all_evidence(bad, seen, job),
    )


def _all_evidence(
    bad: dict[int, BadLoss], seen: dict[int, Brought], job: JobSeen
) -> tuple[Evidence, ...]:
    losses = [_evidence(rank, bad[rank], job) for rank in _oldest_first(bad)]
    earlier = [brought.evidence_of(rank, job.places[rank], seen[rank]) for rank in sorted(seen)]
    return (*earlier, *losses)[:SHOWN]


def _oldest_first(bad: dict[int, BadLoss]) -> list[int]:
    return sorted(bad, key=lambda rank: (bad[rank].since, rank))


def _alone(first: list[int], bad: dict[int, BadLoss], job: JobSeen) -> str | None:
    """The one node on which it began, where each rank tells its own loss: else nobody can say who
    was first, and where all were at once it came from the sum of all."""
    if len(bad) < len(job.expected.seats):
        return None
    nodes = {job.places[rank] for rank in first}
    others = {job.places[rank] for rank in bad} - nodes
    return next(iter(nodes)) if len(nodes) == 1 and others else None


def _alone_there(first: list[int], job: JobSeen) -> str | None:
    """The one node of ranks that brought none when their peers did, where there is another."""
    nodes = {job.places[rank] for rank in first}
    others = set(job.places.values()) - nodes
    return next(iter(nodes)) if len(nodes) == 1 and others else None


def _ranks(ranks: list[int]) -> str:
    return f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks))}"


def _all(bad: dict[int, BadLoss], job: JobSeen) -> str:
    every = len(bad) == len(job.expected.seats)
    return "all ranks" if every else f"all ranks that tell one ({len(bad)})"


def _evidence(rank: int, bad: BadLoss, job: JobSeen) -> Evidence:
    before = f"; step {bad.good} had one" if bad.goods else ""
    text = f"no loss is a number since step {bad.since}, {bad.told} in a row{before}"
    return evidence(f"rank {rank} on {job.places[rank]}", text, since=bad.since, good=bad.good)
