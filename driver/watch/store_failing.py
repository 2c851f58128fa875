"""Checkpoints that do not reach their store: said once, and once that they do.

A store that failed works again when a step is written after that: while nothing is due, an executor
has no error to tell. Nodes of a job share its store, so that the first one speaks for all. Only
nodes that have ranks, or that look for what is stored, have to do with it: what a standby lacks
hinders no checkpoint. Pure; never acted on.
"""

from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from holdfast.driver.watch.detector import Context, Detector
from holdfast.driver.watch.model import NOTHING, Findings, Recalled, evidence
from holdfast.protocol.faults import Finding, Kind, Weight
from holdfast.protocol.messages import Observed

Written = tuple[int, int | None]
"""Epoch, and the newest step that the node has written in it."""


class Failing(msgspec.Struct, frozen=True):
    """The store of one job. `bad`: nodes that had an error and have written nothing since, with the
    epoch in which they were last seen so. `marks`: what nodes had written when that was noted.
    """

    bad: Mapping[str, int] = {}
    marks: Mapping[str, Written] = {}


Stores = Mapping[str, Failing]
"""Those that fail, by job."""


class FailingStores(Detector):
    def __init__(self) -> None:
        self._stores: Stores = {}

    def reported(self, seen: Observed, context: Context) -> Findings:
        recalled = context.recalled_of(seen.job or "")
        self._stores, findings = judge(self._stores, seen, recalled)
        return findings

    def drop(self, job: str) -> None:
        self._stores = {name: each for name, each in self._stores.items() if name != job}


def judge(stores: Stores, seen: Observed, recalled: Recalled = NOTHING) -> tuple[Stores, Findings]:
    """What one report of an executor says of it. `recalled`: what an earlier driver told of the job
    and did not take back."""
    stores = _left(stores, seen)
    job = seen.job
    if job is None:
        return stores, ()
    known = stores.get(job)
    if known is None and (told := recalled.get(Kind.STORE_FAILED)):
        known = Failing(bad={told: seen.epoch})
    if known is None:
        if not (seen.store_error and _has_to_do(seen)):
            return stores, ()
        text = f"checkpoints of {job} do not reach their store: {seen.store_error}"
        failed = finding(Kind.STORE_FAILED, job, seen, text)
        return {**stores, job: _noted(Failing(), seen)}, (failed,)
    after = _after(known, seen)
    if after is None:
        text = f"checkpoints of {job} reach their store again: step {seen.persisted_step} did"
        rest = {name: each for name, each in stores.items() if name != job}
        return rest, (finding(Kind.STORE_BACK, job, seen, text),)
    return stores if stores.get(job) == after else {**stores, job: after}, ()


def _has_to_do(seen: Observed) -> bool:
    return bool(seen.ranks or seen.looking)


def _left(stores: Stores, seen: Observed) -> Stores:
    """Without the node where it has left the job: it has nothing more to say there."""
    had = {job for job, each in stores.items() if seen.node in each.marks or seen.node in each.bad}
    gone = had - {seen.job}
    return {**stores, **{job: _without(stores[job], seen.node) for job in gone}} if gone else stores


def _without(failing: Failing, node: str) -> Failing:
    bad = {name: epoch for name, epoch in failing.bad.items() if name != node}
    return Failing(bad, {name: mark for name, mark in failing.marks.items() if name != node})


def _after(known: Failing, seen: Observed) -> Failing | None:
    """None where a step was written, and no node is left that cannot write."""
    if not _has_to_do(seen):
        return known
    mark, now = known.marks.get(seen.node), (seen.epoch, seen.persisted_step)
    if seen.store_error or (mark is None and seen.node in known.bad):
        return _noted(known, seen)
    if mark is None:
        return replace(known, marks={**known.marks, seen.node: now})
    if seen.persisted_step is None or now == mark:
        return _noted(known, seen, mark) if seen.node in known.bad else known
    bad = {name: epoch for name, epoch in known.bad.items() if name != seen.node}
    if seen.epoch in bad.values():
        return replace(known, bad=bad)
    return None


def _noted(known: Failing, seen: Observed, mark: Written | None = None) -> Failing:
    """The node cannot write, as far as is known."""
    written = mark or (seen.epoch, seen.persisted_step)
    return Failing({**known.bad, seen.node: seen.epoch}, {**known.marks, seen.node: written})


def finding(kind: Kind, job: str, seen: Observed, text: str) -> Finding:
    """The same in each of these: it is told, and nothing more."""
    return Finding(
        kind=kind,
        weight=Weight.REPORT,
        job=job,
        epoch=seen.epoch,
        node=seen.node,
        step=seen.persisted_step,
        summary=text,
        evidence=(evidence(f"executor of {seen.node}", text),),
    )
