"""A job that stands still: name the one rank that holds it up, or say that nobody can be. Pure.

Standing still is: no step completed by all for longer than max(3 median steps, a floor, twice the
longest pause that ended by itself), and nothing moving in any ring for a second (ten samples).
A culprit that burns CPU may be in a pause that nobody marked (an evaluation, a checkpoint): it is
given twice as long, and twice as long again after each restart that such a one had. Before its
first step a job has a limit of its own, for whatever it prepares; but a process that does not run
at all prepares nothing.
"""

from collections.abc import Iterable

import msgspec

from holdfast.driver.watch.model import Expectation, Findings, Ranks, Settings, evidence
from holdfast.driver.watch.pace import Pace
from holdfast.protocol.faults import Blame, Evidence, Finding, Kind, Weight
from holdfast.telemetry.analysis import hang

QUIET_S = 1.0
"""Nothing moves in any ring: at ten samples a second this is ten that agree."""
LOOK_AGAIN_S = 0.5
"""Following the waits of 12,000 ranks takes some tenths of a second: not at every tick."""
BUSY_SHARE = 0.5
"""CPU seconds a second above which a rank is at work on something."""
DARK_FLOORS = 6
"""Floors after which a rank whose process does not run is a hang also before the first step."""
GONE = frozenset({"gone", "Z", "X"})


class Still(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """State of one job: what was told, and which nodes and busy ranks have hung before."""

    began_s: float
    looked_s: float = 0.0  # when waits were last followed
    told_epoch: int | None = None
    hung_nodes: tuple[str, ...] = ()
    busy_hangs: int = 0


def judge(
    still: Still,
    expected: Expectation,
    ranks: Ranks,
    pace: Pace,
    busy: Iterable[int],
    settings: Settings,
    now: float,
) -> tuple[Still, Findings]:
    """At most one finding an epoch, for a job whose rings have been quiet for QUIET_S.

    `ranks` is the progress of those that are heard of, aged to `now`; `busy` those that use CPU.
    """
    watched = {rank: seen for rank, seen in ranks.items() if seen.hooks}
    if still.told_epoch == expected.epoch or 2 * len(watched) < len(expected.seats):
        return still, ()  # what most ranks do is not known
    if any(seen.process in GONE for seen in ranks.values()):
        return still, ()  # an exit: its executor tells it, and everything else follows from that
    limit_s = patience_s(expected, pace, settings)
    young = pace.stepped_s is None
    dark_s = DARK_FLOORS * expected.hang_floor_s if young else limit_s
    stood_s = now - (pace.stepped_s if pace.stepped_s is not None else still.began_s)
    if stood_s <= min(limit_s, dark_s) or now - still.looked_s < LOOK_AGAIN_S:
        return still, ()
    still = msgspec.structs.replace(still, looked_s=now)
    missing = {seat.rank for seat in expected.seats} - ranks.keys()
    verdict = hang.culprit(watched, missing)
    is_busy = verdict.rank in set(busy)
    if young and not is_busy and _dark(watched, verdict, dark_s):
        limit_s = dark_s
    if verdict.rank is None or (is_busy and not verdict.silent):
        limit_s *= 2 * 2**still.busy_hangs
    if stood_s <= limit_s:
        return still, ()
    finding = _finding(still, expected, verdict, pace, stood_s, limit_s)
    return _after(still, expected, finding, is_busy), (finding,)


def _dark(watched: Ranks, verdict: hang.Verdict, dark_s: float) -> bool:
    """Whether the culprit is known by a pulse that has stood still for so long."""
    seen = watched.get(verdict.rank) if verdict.rank is not None else None
    return seen is not None and verdict.silent and seen.silent_s > dark_s


def patience_s(expected: Expectation, pace: Pace, settings: Settings) -> float:
    """How long the job may go without a step."""
    if pace.stepped_s is None:
        return expected.first_step_s
    steps_s = settings.hang_periods * (pace.median_s or 0.0)
    return max(steps_s, expected.hang_floor_s, 2 * pace.pause_s)


def _after(still: Still, expected: Expectation, finding: Finding, busy: bool) -> Still:
    return msgspec.structs.replace(
        still,
        told_epoch=expected.epoch,
        hung_nodes=(*still.hung_nodes, finding.node) if finding.node else still.hung_nodes,
        busy_hangs=still.busy_hangs + busy,
    )


def _finding(
    still: Still,
    expected: Expectation,
    verdict: hang.Verdict,
    pace: Pace,
    stood_s: float,
    limit_s: float,
) -> Finding:
    stood = _stood(pace, stood_s, limit_s)
    told = (stood, *(evidence("detector", sentence) for sentence in verdict.why))
    node = expected.node_of().get(verdict.rank) if verdict.rank is not None else None
    if verdict.rank is None or node is None:
        summary = f"no progress for {stood_s:.1f} s, and nobody can be named: {verdict.why[0]}"
        kind, weight = Kind.NO_PROGRESS, Weight.RESTART
    else:
        summary = f"rank {verdict.rank} on {node} holds the job up: {verdict.why[0]}"
        again = node in still.hung_nodes
        kind, weight = Kind.HANG, Weight.SUSPECT if again else Weight.RESTART
        if again:
            told += (evidence("detector", f"{node} held this job up before"),)
    return Finding(
        kind=kind,
        weight=weight,
        blame=Blame.UNKNOWN,
        job=expected.job,
        epoch=expected.epoch,
        node=node,
        rank=verdict.rank,
        step=pace.step,
        stalled_s=stood_s,
        summary=summary,
        evidence=told,
    )


def _stood(pace: Pace, stood_s: float, limit_s: float) -> Evidence:
    usual = f"; a step takes {pace.median_s:.2g} s" if pace.median_s is not None else ""
    text = f"no step since step {pace.step} for {stood_s:.1f} s, more than {limit_s:.1f} s{usual}"
    return evidence("detector", text, stood_s=round(stood_s, 2), limit_s=round(limit_s, 2))
