"""A loss that stays no number, or it or a gradient's norm far above what it was. Pure.

Of one that is no number see `loss_not_a_number`. A jump is a report, told once an epoch: a new part
of the data, or another rate of learning, makes one as well, so that nothing is done about it.
"""

from collections.abc import Callable, Mapping
from math import isfinite
from typing import NamedTuple

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


class Figure(NamedTuple):
    """What of a rank is looked at, and what it is called."""

    name: str
    of: Callable[[RankProgress], float | None]


LOSS = Figure("loss", lambda seen: seen.loss)
NORM = Figure("gradient norm", lambda seen: seen.grad_norm)


class Usual(msgspec.Struct, frozen=True, gc=False):
    """Of one rank: what its figure is about, by how many steps, and how many were high since."""

    step: int
    value: float
    steps: int = 1
    high: int = 0
    since: int = 0  # the step of the first that was high


class Losses(msgspec.Struct):
    """State of one figure in one job's epoch. Written in place: a heartbeat costs what its own
    ranks cost."""

    epoch: int = 0
    told: bool = False
    usual: dict[int, Usual] = {}
    none: NotANumber = msgspec.field(default_factory=NotANumber)


class BadLosses(Detector):
    """Listens to what ranks tell of their loss."""

    def __init__(self) -> None:
        self._losses: dict[str, Losses] = {}
        self._norms: dict[str, Losses] = {}

    def heard_of(self, beat: Heartbeat, job: JobSeen, context: Context) -> Findings:
        name = job.expected.job
        known = self._losses.get(name, Losses())
        self._losses[name], findings = judge(known, beat, job.expected)
        norms = self._norms.get(name, Losses())
        self._norms[name], high = judge(norms, beat, job.expected, NORM)
        none = self._losses[name].none
        loss_not_a_number.hear(none, beat, job)
        found = loss_not_a_number.judge(none, job) or loss_not_a_number.only_some(none, beat, job)
        return (*findings, *high, found) if found else (*findings, *high)

    def drop(self, job: str) -> None:
        self._losses.pop(job, None)
        self._norms.pop(job, None)


def judge(
    known: Losses, beat: Heartbeat, expected: Expectation, figure: Figure = LOSS
) -> tuple[Losses, Findings]:
    """The losses, or other figures, of one heartbeat."""
    if known.epoch != expected.epoch:
        known = Losses(epoch=expected.epoch)
    own = (each for each in beat.ranks if (each.job, each.epoch) == (expected.job, expected.epoch))
    seen = {each.rank: (each.step, figure.of(each)) for each in own if each.step}
    told = {rank: (step, value) for rank, (step, value) in seen.items() if value is not None}
    if known.told or not told:
        return known, ()
    usual = known.usual
    usual.update({rank: _next(usual.get(rank), *each) for rank, each in told.items()})
    high = {rank: told[rank] for rank in sorted(told) if _is_high(usual[rank])}
    known.told = bool(high)
    if high:
        rank = next(iter(high))
        times = high[rank][1] / usual[rank].value
        return known, (_finding(beat.node, expected, high, figure.name, times),)
    return known, ()


def _is_high(usual: Usual) -> bool:
    return usual.high >= TWICE and usual.step - usual.since + 1 >= LASTS


def _next(known: Usual | None, step: int, value: float) -> Usual:
    if known is None or step < known.step or value <= 0:  # about 0 all is far higher
        return Usual(step, value)
    if step == known.step or not isfinite(value):
        return known
    if known.steps >= KNOWN and 0 < JUMP * known.value < value:
        since = known.since if known.high else step
        return Usual(step, known.value, known.steps, known.high + 1, since)
    mean = known.value + max(SHARE, 1 / (known.steps + 1)) * (value - known.value)
    return Usual(step, mean, known.steps + 1)


def _finding(
    node: str, expected: Expectation, high: Mapping[int, tuple[int, float]], name: str, times: float
) -> Finding:
    rank, step = next(iter(high)), max(step for step, _ in high.values())
    texts = {each: f"{name} {value:.4g} at step {at}" for each, (at, value) in high.items()}
    return Finding(
        kind=Kind.LOSS,
        weight=Weight.REPORT,
        job=expected.job,
        epoch=expected.epoch,
        step=step,
        summary=f"the {name} of rank {rank} on {node} is {times:.3g} times as high at step {step}: "
        "of the data, the code or a processor, which nothing tells; "
        "its checkpoints may have it too",
        evidence=tuple(evidence(f"rank {each} on {node}", text) for each, text in texts.items()),
    )
