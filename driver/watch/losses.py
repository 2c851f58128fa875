"""A loss that stays no number, or far above what it was (faults.md, 9). Pure.

Of one that is no number see `loss_not_a_number`. A jump is a report, told once an epoch: a new part
of the data, or another rate of learning, makes one as well, so that nothing is done about it.
"""

from collections.abc import Mapping
from math import isfinite

import msgspec

from holdfast.driver.watch import loss_not_a_number
from holdfast.driver.watch.detector import Context, Detector
from holdfast.driver.watch.jobs import JobSeen
from holdfast.driver.watch.loss_not_a_number import NotANumber
from holdfast.driver.watch.model import Expectation, Findings, evidence
from holdfast.protocol.faults import Finding, Kind, Weight
from holdfast.protocol.messages import Heartbeat, RankProgress

JUMP = 5.0
"""Times what a loss was, from which on it is told (faults.md, 9)."""
TWICE = 2
"""Heartbeats in a row, with a new step each, in which it is so high."""
LASTS = 20
"""Steps that it is so high: a spike that is over sooner is not told. (PaLM's were over only once
the job was started 100 steps before and left 200 to 500 batches out: Chowdhery et al. 2022, 5.1.)
"""
KNOWN = 20
"""Heartbeats with a new step after which a rank's loss is known."""
SHARE = 0.1
"""Of a new loss in what is usual: a loss that falls for long has fallen in that, too."""


class Usual(msgspec.Struct, frozen=True, gc=False):
    """Of one rank: what its loss is about, by how many steps, and how many were high since."""

    step: int
    loss: float
    steps: int = 1
    high: int = 0
    since: int = 0  # the step of the first that was high


class Losses(msgspec.Struct):
    """State of one job's epoch. Written in place: a heartbeat costs what its own ranks cost."""

    epoch: int = 0
    told: bool = False
    usual: dict[int, Usual] = {}
    none: NotANumber = msgspec.field(default_factory=NotANumber)


class BadLosses(Detector):
    """Listens to what ranks tell of their loss."""

    def __init__(self) -> None:
        self._losses: dict[str, Losses] = {}

    def heard_of(self, beat: Heartbeat, job: JobSeen, context: Context) -> Findings:
        name = job.expected.job
        known = self._losses.get(name, Losses())
        self._losses[name], findings = judge(known, beat, job.expected)
        none = self._losses[name].none
        loss_not_a_number.hear(none, beat, job)
        found = loss_not_a_number.judge(none, job) or loss_not_a_number.only_some(none, beat, job)
        return (*findings, found) if found else findings

    def drop(self, job: str) -> None:
        self._losses.pop(job, None)


def judge(known: Losses, beat: Heartbeat, expected: Expectation) -> tuple[Losses, Findings]:
    """The losses of one heartbeat."""
    if known.epoch != expected.epoch:
        known = Losses(epoch=expected.epoch)
    own = (each for each in beat.ranks if (each.job, each.epoch) == (expected.job, expected.epoch))
    seen = {each.rank: each for each in own if each.loss is not None and each.step}
    if known.told or not seen:
        return known, ()
    usual = known.usual
    usual.update({rank: _next(usual.get(rank), each) for rank, each in seen.items()})
    high = [rank for rank in sorted(seen) if _is_high(usual[rank])]
    known.told = bool(high)
    if high:
        times = (seen[high[0]].loss or 0.0) / usual[high[0]].loss
        return known, (_finding(beat.node, expected, high, seen, f"is {times:.3g} times as high"),)
    return known, ()


def _is_high(usual: Usual) -> bool:
    return usual.high >= TWICE and usual.step - usual.since + 1 >= LASTS


def _next(known: Usual | None, seen: RankProgress) -> Usual:
    loss = seen.loss or 0.0
    if known is None or seen.step < known.step or loss <= 0:  # about 0 all is far higher
        return Usual(seen.step, loss)
    if seen.step == known.step or not isfinite(loss):
        return known
    if known.steps >= KNOWN and 0 < JUMP * known.loss < loss:
        since = known.since if known.high else seen.step
        return Usual(seen.step, known.loss, known.steps, known.high + 1, since)
    mean = known.loss + max(SHARE, 1 / (known.steps + 1)) * (loss - known.loss)
    return Usual(seen.step, mean, known.steps + 1)


def _finding(
    node: str, expected: Expectation, ranks: list[int], seen: Mapping[int, RankProgress], how: str
) -> Finding:
    rank, step = ranks[0], max(seen[rank].step for rank in ranks)
    texts = (f"loss {seen[rank].loss:.4g} at step {seen[rank].step}" for rank in ranks)
    return Finding(
        kind=Kind.LOSS,
        weight=Weight.REPORT,
        job=expected.job,
        epoch=expected.epoch,
        step=step,
        summary=f"the loss of rank {rank} on {node} {how} at step {step}: of the data, the code or "
        "a processor, which nothing tells; its checkpoints may have it too",
        evidence=tuple(
            evidence(f"rank {rank} on {node}", text)
            for rank, text in zip(ranks, texts, strict=True)
        ),
    )
