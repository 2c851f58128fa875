"""Snapshots that are not made, and saves that were skipped: said once, never acted on. Pure."""

from collections.abc import Mapping

import msgspec

from holdfast.driver.watch.detector import Context, Detector
from holdfast.driver.watch.model import NOTHING, Findings, Recalled
from holdfast.driver.watch.store_failing import finding
from holdfast.protocol.counts import plural
from holdfast.protocol.faults import Finding, Kind
from holdfast.protocol.messages import Observed

MORE = 10
"""So many times as many skipped saves as were told are worth telling."""


DROUGHT = 10
"""Saves refused one after another by a rank, from which on the job is said to have no snapshots."""


class NodeSaves(msgspec.Struct, frozen=True, kw_only=True):
    """State of one node. `dry`: so many saves in a row were refused there that a loss would cost
    more than a few steps.
    """

    job: str
    epoch: int
    skips_told: int = 0
    dry: bool = False


Savings = Mapping[str, NodeSaves]
"""State, by node."""


class SkippedSaves(Detector):
    def __init__(self) -> None:
        self._savings: Savings = {}

    def reported(self, seen: Observed, context: Context) -> Findings:
        recalled = context.recalled_of(seen.job or "")
        self._savings, findings = judge(self._savings, seen, recalled)
        return findings

    def drop(self, job: str) -> None:
        self._savings = {node: each for node, each in self._savings.items() if each.job != job}


def judge(
    savings: Savings, seen: Observed, recalled: Recalled = NOTHING
) -> tuple[Savings, Findings]:
    """What one report of an executor says of its job's snapshots, and of saves that were skipped.

    `recalled`: what an earlier driver told of the job and did not take back.
    """
    before = savings.get(seen.node)
    if seen.job is None:
        rest = {node: each for node, each in savings.items() if node != seen.node}
        return savings if before is None else rest, ()
    if before is None or before.job != seen.job:
        dry = recalled.get(Kind.SNAPSHOTS_STOPPED) == seen.node
        before = NodeSaves(job=seen.job, epoch=seen.epoch, dry=dry)
    dry = _dry(before, seen)
    peers = _peers(savings, seen) if dry != before.dry or seen.skipped_saves else []
    told = max(each.skips_told for each in (before, *peers))
    after = NodeSaves(
        job=seen.job,
        epoch=seen.epoch,
        skips_told=seen.skipped_saves if _many(seen, told) else before.skips_told,
        dry=dry,
    )
    found = []
    if dry != before.dry and not any(each.dry for each in peers):
        found.append(_snapshots(seen.job, seen, dry=dry))
    elif _many(seen, told):
        found.append(_skipped(seen.job, seen))
    known = savings.get(seen.node) == after
    return savings if known else {**savings, seen.node: after}, tuple(found)


def _peers(savings: Savings, seen: Observed) -> list[NodeSaves]:
    """Of the same epoch. A job may have thousands: only for where there is something to say."""
    mine = (seen.job, seen.epoch)
    return [
        each
        for node, each in savings.items()
        if node != seen.node and (each.job, each.epoch) == mine
    ]


def _dry(before: NodeSaves, seen: Observed) -> bool:
    """A new epoch alone mends nothing: it takes a snapshot of its own."""
    made = any(each.epoch == seen.epoch for each in seen.snapshots)
    if before.dry:
        return bool(seen.skipped_in_a_row) or not made
    return seen.skipped_in_a_row >= DROUGHT


def _many(seen: Observed, told: int) -> bool:
    return seen.skipped_saves >= max(1, MORE * told)


def _snapshots(job: str, seen: Observed, *, dry: bool) -> Finding:
    if not dry:
        text = f"snapshots of {job} are made again on {seen.node}"
        return finding(Kind.SNAPSHOTS_BACK, job, seen, text)
    row = plural(seen.skipped_in_a_row, "save")
    text = (
        f"no snapshot of {job} is made on {seen.node} any more: {row} in "
        f"a row refused, so that a fault costs all steps since: {seen.skipped_why}"
    )
    return finding(Kind.SNAPSHOTS_STOPPED, job, seen, text)


def _skipped(job: str, seen: Observed) -> Finding:
    count = plural(seen.skipped_saves, "save")
    text = f"{count} of {job} skipped on {seen.node} so far: {seen.skipped_why}"
    return finding(Kind.SAVE_SKIPPED, job, seen, text)
