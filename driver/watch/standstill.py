"""A job that stands still: name the one rank that holds it up, or say that nobody can be. Pure.

Standing still is: no step completed by all for longer than max(3 median steps, a floor, twice the
longest pause that ended by itself), and nothing moving in any ring for a second (ten samples). It
is said then, and of a rank that does not run after two seconds; what is done about it depends on
the manner (see `standstill_manner`): a dead rank is acted on at the floor, one that is stuck after
the job's `stuckMaxS`, one that works on something after its `pauseMaxS`, and one that sleeps not
before its sleep is over. Each restart that a place in the job's script has had makes these longer.
Ranks in collectives that can never meet do not pause: they are acted on at the floor. Before its
first step a job has a limit of its own, for whatever it prepares; but a process that does not run
at all, nor loads anything, prepares nothing.
"""

import msgspec

from holdfast.driver.watch import collective_diverged, pauses
from holdfast.driver.watch import standstill_limits as limits
from holdfast.driver.watch import standstill_words as words
from holdfast.driver.watch.collective_diverged import FIX
from holdfast.driver.watch.model import Expectation, Findings
from holdfast.driver.watch.pace import Pace
from holdfast.driver.watch.standstill_case import Case, JobView, case_of
from holdfast.driver.watch.standstill_limits import Still
from holdfast.driver.watch.standstill_manner import GONE, Manner
from holdfast.protocol.faults import Finding, Kind, Weight

SKIPPED = "hang-skipped"
"""In the driver's table of signs: it waits in another collective than all others of its group."""

LOOK_AGAIN_S = 0.5
"""Following the waits of 12,000 ranks takes some hundredths of a second: not at every tick."""


def begun(before: Still | None, expected: Expectation, at_s: float) -> Still:
    """In an attempt that began then; what paused in those before it stays known."""
    epoch = expected.epoch
    if before is None:
        return Still(epoch=epoch, began_s=at_s, paused=expected.pauses)
    if before.epoch == epoch:
        return before
    return msgspec.structs.replace(before, epoch=epoch, began_s=at_s, named="", under_way={})


def judge(still: Still, view: JobView) -> tuple[Still, Findings]:
    """At most one finding an epoch that is acted on, for a job whose rings are quiet (`QUIET_S` of
    `jobs`)."""
    stood_s = _stands_s(still, view)
    if stood_s is None:
        return still, ()
    case = case_of(view, stood_s)
    still = _looked(still, case, view.now)
    limit_s = limits.limit_of(still, case, view.settings)
    if limits.counted_s(case) > limit_s:
        return _told(still, case, limit_s, mismatch=view.odd is not None)
    said_s = limits.said_after_s(still, case, view.settings)
    known = still.named and limit_s >= still.named_s
    soon = case.apart_s > 0 and limit_s <= said_s
    news = stood_s > said_s or limits.stuck_as_never(still, case, view.settings)
    if known or soon or limits.is_unsure(case) or not news:
        return still, ()
    named = msgspec.structs.replace(
        still,
        named=words.who(case),
        named_step=view.pace.step,
        cause=words.cause(case, limit_s),
        named_s=limit_s,
    )
    return named, (words.report(case, limit_s, pauses.known_at(still.paused, case)),)


def _stands_s(still: Still, view: JobView) -> float | None:
    """For how long the job has made no step; None where it is not to be looked at now."""
    expected, watched = view.expected, view.watched
    if still.told_epoch == expected.epoch or 2 * len(watched) < len(expected.seats):
        return None  # what most ranks do is not known
    if any(seen.process in GONE for seen in view.ranks.values()):
        return None  # an exit: its executor tells it, and everything else follows from that
    stepped_s = view.pace.stepped_s
    stood_s = view.now - (stepped_s if stepped_s is not None else still.began_s)
    apart_s = collective_diverged.stand_s(view.odd, watched)
    least_s = limits.looked_at_after_s(expected, view.pace, view.settings)
    stands = stood_s > least_s or apart_s > expected.hang_floor_s
    return stood_s if stands and view.now - still.looked_s >= LOOK_AGAIN_S else None


def ended(still: Still, expected: Expectation, pace: Pace) -> tuple[Still, Findings]:
    """While the job goes: what was learned of a standstill that is over, and an all-clear."""
    last, still = still.under_way, _learned(still, pace)
    if not still.named or pace.step <= still.named_step:
        return still, ()
    if still.told_epoch == expected.epoch:  # it was no hang, and another may come
        still = msgspec.structs.replace(still, told_epoch=None)
    after = msgspec.structs.replace(still, named="")
    return after, (words.all_clear(still, expected, pace, last),)


def _learned(still: Still, pace: Pace) -> Still:
    """What was seen of a standstill is known once steps go on after it."""
    if not still.under_way or pace.step <= still.under_step:
        return still
    paused = pauses.longest(still.paused, still.under_way)
    return msgspec.structs.replace(still, paused=paused, under_way={})


def _stuck(case: Case) -> bool:
    """Whether it waits for others, and not in a line of its script that takes its time."""
    seen = case.seen
    waits = seen is None or seen.waiting or not seen.frame
    return waits and case.manner in (Manner.DEAD, Manner.STUCK)


def _looked(still: Still, case: Case, now: float) -> Still:
    still = _learned(still, case.pace)
    under_way = pauses.looked(still.under_way, case)
    return msgspec.structs.replace(
        still, looked_s=now, under_way=under_way, under_step=case.pace.step
    )


def _never_met(still: Still, case: Case) -> bool:
    """Ranks on several nodes wait before their first step, none for one that could be named, of a
    script that came further before, or stood so before: where they meet is to be looked at.
    """
    several = len(set(case.expected.nodes)) > 1
    began_before = case.pace.best_step > 0 or still.told_epoch is not None
    waits = case.young and case.rank is None and case.manner is Manner.STUCK
    return several and waits and began_before


def _told(still: Still, case: Case, limit_s: float, *, mismatch: bool) -> tuple[Still, Findings]:
    """What is acted on. A collective that does not match is the script's, not the node's."""
    kind = Kind.HANG if case.node is not None else Kind.NO_PROGRESS
    finding = Finding(
        kind=Kind.COLLECTIVE_MISMATCH if mismatch else kind,
        sign=SKIPPED if case.verdict.skipped else "",
        weight=Weight.SUSPECT if not mismatch and _never_met(still, case) else Weight.RESTART,
        job=case.expected.job,
        epoch=case.expected.epoch,
        node=case.node,
        rank=case.rank if case.node is not None else None,
        step=case.pace.step if case.unit == "step" else None,
        stalled_s=case.stood_s,
        summary=words.summary(case),
        evidence=words.evidence_of(case, limit_s, pauses.known_at(still.paused, case)),
        spot=case.spot,
        fix=FIX if mismatch else words.fix(case),
        stuck=_stuck(case),
    )
    after = msgspec.structs.replace(
        still,
        told_epoch=case.expected.epoch,
        named=words.who(case),
        named_step=case.pace.step,
    )
    return after, (finding,)
