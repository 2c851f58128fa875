"""Checkpoints that do not reach their store, snapshots that are not made, and saves that were
skipped: said once, never acted on. Pure.

A store that failed works again when a step is written after that: while nothing is due, an executor
has no error to tell. Nodes of a job share its store, so that the first one speaks for all.
"""

from collections.abc import Mapping

import msgspec

from holdfast.driver.watch.model import NOTHING, Findings, Recalled, evidence
from holdfast.protocol.faults import Finding, Kind, Weight
from holdfast.protocol.messages import Observed

Written = tuple[int, int | None]
"""Epoch, and the newest step that the node has written in it."""

MORE = 10
"""So many times as many skipped saves as were told are worth telling."""


DROUGHT = 10
"""Saves refused one after another by a rank, from which on the job is said to have no snapshots."""


class Saving(msgspec.Struct, frozen=True, kw_only=True):
    """State of one node. `failed`: what it had written when its store failed, until that works.

    `dry`: so many saves in a row were refused there that a loss would cost more than a few steps.
    """

    job: str
    epoch: int
    failed: Written | None = None
    skips_told: int = 0
    dry: bool = False


Savings = Mapping[str, Saving]
"""State, by node."""


def judge(
    savings: Savings, seen: Observed, recalled: Recalled = NOTHING
) -> tuple[Savings, Findings]:
    """What one report of an executor says of its job's checkpoints.

    `recalled`: what an earlier driver told of the job and did not take back.
    """
    before = savings.get(seen.node)
    if seen.job is None:
        rest = {node: each for node, each in savings.items() if node != seen.node}
        return savings if before is None else rest, ()
    if before is None or before.job != seen.job:
        before = _first(seen, recalled)
    failed = _failed(before, seen)
    dry = _dry(before, seen)
    turned = bool(failed) != bool(before.failed) or dry != before.dry
    peers = _peers(savings, seen) if turned or seen.skipped_saves else []
    told = max(each.skips_told for each in (before, *peers))
    after = Saving(
        job=seen.job,
        epoch=seen.epoch,
        failed=failed,
        skips_told=seen.skipped_saves if _many(seen, told) else before.skips_told,
        dry=dry,
    )
    found = [] if any(each.failed for each in peers) else _changed(before, after, seen)
    if dry != before.dry and not any(each.dry for each in peers):
        found.append(_snapshots(seen.job, seen, dry=dry))
    elif _many(seen, told):
        found.append(_skipped(seen.job, seen))
    known = savings.get(seen.node) == after
    return savings if known else {**savings, seen.node: after}, tuple(found)


def _first(seen: Observed, recalled: Recalled) -> Saving:
    """Of a node that was not heard of this job. A store that failed works with what is written
    from now on: what its error was may be over, or not yet told again.
    """
    return Saving(
        job=seen.job or "",
        epoch=seen.epoch,
        failed=(seen.epoch, seen.persisted_step)
        if recalled.get(Kind.STORE_FAILED) == seen.node
        else None,
        dry=recalled.get(Kind.SNAPSHOTS_STOPPED) == seen.node,
    )


def _peers(savings: Savings, seen: Observed) -> list[Saving]:
    """Of the same epoch. A job may have thousands: only for where there is something to say."""
    mine = (seen.job, seen.epoch)
    return [
        each
        for node, each in savings.items()
        if node != seen.node and (each.job, each.epoch) == mine
    ]


def _failed(before: Saving, seen: Observed) -> Written | None:
    now = (seen.epoch, seen.persisted_step)
    if seen.store_error:
        return before.failed or now
    has_written = seen.persisted_step is not None and now != before.failed
    return None if has_written else before.failed


def _dry(before: Saving, seen: Observed) -> bool:
    """A new epoch alone mends nothing: it takes a snapshot of its own."""
    made = any(each.epoch == seen.epoch for each in seen.snapshots)
    if before.dry:
        return bool(seen.skipped_in_a_row) or not made
    return seen.skipped_in_a_row >= DROUGHT


def _many(seen: Observed, told: int) -> bool:
    return seen.skipped_saves >= max(1, MORE * told)


def _changed(before: Saving, after: Saving, seen: Observed) -> list[Finding]:
    if after.failed and not before.failed:
        text = f"checkpoints of {after.job} do not reach their store: {seen.store_error}"
        return [_finding(Kind.STORE_FAILED, after.job, seen, text)]
    if before.failed and not after.failed:
        text = f"checkpoints of {after.job} reach their store again: step {seen.persisted_step} did"
        return [_finding(Kind.STORE_BACK, after.job, seen, text)]
    return []


def _snapshots(job: str, seen: Observed, *, dry: bool) -> Finding:
    if not dry:
        text = f"snapshots of {job} are made again on {seen.node}"
        return _finding(Kind.SNAPSHOTS_BACK, job, seen, text)
    text = (
        f"no snapshot of {job} is made on {seen.node} any more: {seen.skipped_in_a_row} saves in "
        f"a row were refused, so that a fault costs all steps since: {seen.skipped_why}"
    )
    return _finding(Kind.SNAPSHOTS_STOPPED, job, seen, text)


def _skipped(job: str, seen: Observed) -> Finding:
    count = f"{seen.skipped_saves} save{'' if seen.skipped_saves == 1 else 's'} of {job}"
    text = f"{count} skipped on {seen.node} so far: {seen.skipped_why}"
    return _finding(Kind.SAVE_SKIPPED, job, seen, text)


def _finding(kind: Kind, job: str, seen: Observed, text: str) -> Finding:
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
