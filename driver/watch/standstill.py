"""A job that stands still: name the one rank that holds it up, or say that nobody can be. Pure.

Standing still is: no step completed by all for longer than max(3 median steps, a floor, twice the
longest pause that ended by itself), and nothing moving in any ring for a second (ten samples). It
is said then; what is done about it depends on the manner (see `standstill_manner`): a dead rank is
acted on at once, one that is stuck after the job's `stuckMaxS`, one that works on something after
its `pauseMaxS`, and one that sleeps not before its sleep is over. Each restart that a place in the
job's script has had makes these longer. Ranks in collectives that can never meet do not pause:
they are acted on at the floor. Before its first step a job has a limit of its own, for whatever it
prepares; but a process that does not run at all, nor loads anything, prepares nothing.
"""

from collections.abc import Mapping

import msgspec

from holdfast.driver.watch import collective_diverged
from holdfast.driver.watch import standstill_words as words
from holdfast.driver.watch.collective_diverged import FIX, Odd
from holdfast.driver.watch.model import RELATIVE, Expectation, Findings, Ranks, Settings
from holdfast.driver.watch.pace import Pace
from holdfast.driver.watch.standstill_manner import (
    NO_CPU,
    STOPPED,
    Cpu,
    Manner,
    asleep,
    idle_s,
    just_dark,
    manner,
    moves,
    stuck_limit_s,
)
from holdfast.protocol.faults import Finding, Kind, Weight
from holdfast.protocol.messages import RankProgress
from holdfast.telemetry.analysis import hang

LOOK_AGAIN_S = 0.5
"""Following the waits of 12,000 ranks takes some tenths of a second: not at every tick."""
DARK_FLOORS = 6
"""Floors after which a rank whose process does not run is a hang also before the first step."""
YOUNG_SAID = 0.5
"""Share of its time before the first step that is over when people are told that it makes none."""
FACTOR, LONGEST_S = 4, 3_600.0
"""Each restart at one spot makes the next one there so much later, up to an hour."""
PULSE_LATE_S = 1.0
"""By how much a pulse that stopped with the job may seem younger than its last step: a sample and a
heartbeat. (One that has only just stopped is a call that lets no other thread run.)"""
GONE = frozenset({"gone", "Z", "X"})


class Still(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """State of one job: what was told, and what paused before."""

    epoch: int
    began_s: float
    looked_s: float = 0.0  # when waits were last followed
    told_epoch: int | None = None
    named: str = ""  # whom the standstill under way was said to be of
    named_step: int = 0
    named_s: float = 0.0  # the limit that was said with it: a shorter one is said, too
    idle_s: float = 0.0  # longest that nothing moved in a standstill that ended by itself
    dead_s: float = 0.0  # longest such one of ranks that did not run
    worst: tuple[float, float] = (0.0, 0.0)  # the same of the one under way


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """A standstill as it is at one moment. `rank` is whom it is put down to, None: nobody."""

    expected: Expectation
    verdict: hang.Verdict
    pace: Pace
    unit: str
    rank: int | None
    seen: RankProgress | None  # of that rank, else of the one that tells most
    manner: Manner
    cpu: Cpu
    stood_s: float
    spot: str
    apart_s: float = 0.0  # for how long ranks have been in collectives that never meet

    @property
    def young(self) -> bool:
        return self.pace.stepped_s is None

    @property
    def relative(self) -> bool:
        """Whether its steps are counted from the start of this attempt."""
        return self.unit == "step" and self.seen is not None and RELATIVE in self.seen.partial

    @property
    def node(self) -> str | None:
        return self.expected.node_of().get(self.rank) if self.rank is not None else None

    @property
    def idle_s(self) -> float:
        return idle_s(self.seen, self.cpu) if self.seen is not None else self.stood_s


def begun(before: Still | None, epoch: int, at_s: float) -> Still:
    """In an attempt that began then; what paused in those before it stays known."""
    if before is None:
        return Still(epoch=epoch, began_s=at_s)
    if before.epoch == epoch:
        return before
    return msgspec.structs.replace(before, epoch=epoch, began_s=at_s, named="", worst=(0.0, 0.0))


def judge(
    still: Still,
    expected: Expectation,
    ranks: Ranks,
    pace: Pace,
    cpu: Mapping[int, Cpu],
    settings: Settings,
    now: float,
    unit: str = "step",
    odd: Odd | None = None,
) -> tuple[Still, Findings]:
    """At most one finding an epoch that is acted on, for a job whose rings are quiet (`QUIET_S` of
    `jobs`).

    `ranks` is the progress of those that are heard of, aged to `now`; `cpu` what they use;
    `unit` is what the pace is of, steps or collectives; `odd` is who is in another collective than
    its peers, where that was found: then nobody waits in vain for anybody else.
    """
    watched = {rank: seen for rank, seen in ranks.items() if seen.hooks}
    if still.told_epoch == expected.epoch or 2 * len(watched) < len(expected.seats):
        return still, ()  # what most ranks do is not known
    if any(seen.process in GONE for seen in ranks.values()):
        return still, ()  # an exit: its executor tells it, and everything else follows from that
    named_s = patience_s(expected, pace, settings)
    dark_s = DARK_FLOORS * expected.hang_floor_s if pace.stepped_s is None else named_s
    stood_s = now - (pace.stepped_s if pace.stepped_s is not None else still.began_s)
    apart_s = collective_diverged.stand_s(odd, watched)
    least_s = (
        min(YOUNG_SAID * named_s, dark_s)
        if pace.stepped_s is None
        else min(named_s, expected.pause_max_s, _steps_s(expected, pace, settings))
    )
    stands = stood_s > least_s or apart_s > expected.hang_floor_s
    if not stands or now - still.looked_s < LOOK_AGAIN_S:
        return still, ()
    missing = {seat.rank for seat in expected.seats} - ranks.keys()
    verdict = hang.culprit(watched, missing) if odd is None else _of_odd(odd)
    case = _case(expected, watched, verdict, pace, unit, cpu, stood_s, apart_s)
    still = _looked(still, case, now)
    if (limit_s := _over(still, case, settings)) is not None:
        return _told(still, case, limit_s, mismatch=odd is not None)
    limit_s = limit_of(still, case, settings)
    known = still.named and limit_s >= still.named_s
    soon = case.apart_s > 0 and limit_s <= named_s
    said_s = YOUNG_SAID * named_s if case.young else named_s
    unsure = case.manner is Manner.DEAD and just_dark(case.seen)
    if known or soon or unsure or stood_s <= said_s:
        return still, ()
    named = msgspec.structs.replace(
        still, named=words.who(case), named_step=pace.step, named_s=limit_s
    )
    return named, (words.report(case, limit_s),)


def ended(still: Still, expected: Expectation, pace: Pace) -> tuple[Still, Findings]:
    """While the job goes: what was learned of a standstill that is over, and an all-clear."""
    if not still.named or pace.step <= still.named_step:
        return still, ()
    idle, dead = still.worst
    if still.told_epoch == expected.epoch:  # it was no hang, and another may come
        still = msgspec.structs.replace(still, told_epoch=None)
    after = msgspec.structs.replace(
        still,
        named="",
        worst=(0.0, 0.0),
        idle_s=max(still.idle_s, idle),
        dead_s=max(still.dead_s, dead),
    )
    return after, (words.all_clear(still.named, expected, pace),)


def patience_s(expected: Expectation, pace: Pace, settings: Settings) -> float:
    """How long the job may go without a step before that is said."""
    if pace.stepped_s is None:
        return expected.first_step_s
    return max(_steps_s(expected, pace, settings), 2 * pace.pause_s)


def _steps_s(expected: Expectation, pace: Pace, settings: Settings) -> float:
    if pace.stepped_s is None:
        return expected.first_step_s
    return max(settings.hang_periods * (pace.median_s or 0.0), expected.hang_floor_s)


def limit_of(still: Still, case: Case, settings: Settings) -> float:
    """How long the job may go without a step before something is done."""
    expected, floor_s = case.expected, case.expected.hang_floor_s
    if case.apart_s:
        return _more(expected, case.spot, floor_s)
    if case.young:
        limit_s = expected.first_step_s if _dark_s(case) is None else DARK_FLOORS * floor_s
        return _more(expected, case.spot, limit_s)
    usual_s = _steps_s(expected, case.pace, settings)
    if case.manner is Manner.DEAD:
        known_s = max(2 * still.dead_s, min(2 * case.pace.pause_s, 2 * floor_s))
        return _more(expected, case.spot, max(usual_s, known_s))
    if case.manner is Manner.STUCK:
        limit_s = max(usual_s, stuck_limit_s(case.seen, expected.stuck_s), 2 * still.idle_s)
        return _more(expected, case.spot, limit_s)
    return _more(expected, case.spot, max(usual_s, expected.pause_max_s))


def _dark_s(case: Case) -> float | None:
    """For how long a rank before its first step has not run at all; None where it has a way to.

    A library that is being loaded lets no pulse go, and from a slow disk needs no CPU: it moves.
    """
    seen = case.seen
    if not case.young or case.manner is not Manner.DEAD or seen is None:
        return None
    if case.cpu.busy or moves(seen):
        return None
    since_s = (case.stood_s, seen.silent_s + PULSE_LATE_S, seen.moved_s)
    return min(each for each in since_s if each is not None)


def _more(expected: Expectation, spot: str, limit_s: float) -> float:
    """Later for each restart that the spot has had."""
    restarts = expected.spots.get(spot, 0)
    return max(limit_s, min(limit_s * float(FACTOR) ** restarts, LONGEST_S))


def _over(still: Still, case: Case, settings: Settings) -> float | None:
    """The limit that has been passed, if one has."""
    limit_s = limit_of(still, case, settings)
    return limit_s if _counted_s(case) > limit_s else None


def _counted_s(case: Case) -> float:
    """For how long the case is what it is: a rank that worked until now is not yet stuck."""
    if case.apart_s:
        return case.apart_s
    if (dark_s := _dark_s(case)) is not None:
        return dark_s
    seen = case.seen
    if case.manner is Manner.STUCK and not case.young:
        return min(case.stood_s, case.idle_s)
    if case.manner is not Manner.DEAD or seen is None:
        return case.stood_s
    return min(case.stood_s, seen.silent_s + PULSE_LATE_S)


def _case(
    expected: Expectation,
    ranks: Ranks,
    verdict: hang.Verdict,
    pace: Pace,
    unit: str,
    cpu: Mapping[int, Cpu],
    stood_s: float,
    apart_s: float,
) -> Case:
    """Put the standstill down to somebody: a dead rank first, then one that works."""
    ends = [verdict.rank, *verdict.others] if verdict.rank is not None else []
    asked = ends or sorted(ranks)
    manners = {
        rank: _manner(expected, ranks.get(rank), cpu.get(rank, NO_CPU), stood_s) for rank in asked
    }
    first = min(asked, key=lambda rank: manners[rank], default=None)
    found = manners[first] if first is not None else Manner.STUCK
    named = verdict.rank is not None or found is Manner.DEAD or len(expected.seats) == 1
    seen = ranks.get(first) if first is not None else None
    return Case(
        expected=expected,
        verdict=verdict,
        pace=pace,
        unit=unit,
        rank=first if named else None,
        seen=seen,
        manner=found,
        cpu=cpu.get(first, NO_CPU) if first is not None else NO_CPU,
        stood_s=stood_s,
        spot=_spot(seen, pace),
        apart_s=apart_s,
    )


def _manner(expected: Expectation, seen: RankProgress | None, cpu: Cpu, stood_s: float) -> Manner:
    found = manner(seen, cpu)
    sleeps = asleep(seen, expected.stuck_s, expected.pause_max_s - stood_s)
    return Manner.ASLEEP if found is Manner.STUCK and sleeps else found


def _of_odd(odd: Odd) -> hang.Verdict:
    return hang.Verdict(rank=odd.rank, why=(odd.text,))


def _spot(seen: RankProgress | None, pace: Pace) -> str:
    """Where in the script it stands still: the same after a restart that changes nothing.

    "" where an outside hand stopped it, or nothing is known.
    """
    if seen is None or seen.process in STOPPED:
        return ""
    if seen.waiting or not seen.frame:
        where = next((f"{g.kind} #{g.enqueued}" for g in seen.groups if g.enqueued), "")
    else:
        where = seen.frame
    relative = RELATIVE in seen.partial
    steps = f"{seen.unsaved} steps after its start or save" if relative else f"step {pace.step}"
    return f"{where}, {steps}" if where else ""


def _stuck(case: Case) -> bool:
    """Whether it waits for others, and not in a line of its script that takes its time."""
    seen = case.seen
    waits = seen is None or seen.waiting or not seen.frame
    return waits and case.manner in (Manner.DEAD, Manner.STUCK)


def _looked(still: Still, case: Case, now: float) -> Still:
    idle, dead = still.worst
    if case.young:  # how long it prepares tells nothing of its pauses
        return msgspec.structs.replace(still, looked_s=now)
    if case.manner is Manner.DEAD:
        dead = max(dead, case.seen.silent_s if case.seen is not None else 0.0)
    elif case.manner is Manner.STUCK:
        idle = max(idle, case.idle_s)
    return msgspec.structs.replace(still, looked_s=now, worst=(idle, dead))


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
        weight=Weight.SUSPECT if not mismatch and _never_met(still, case) else Weight.RESTART,
        job=case.expected.job,
        epoch=case.expected.epoch,
        node=case.node,
        rank=case.rank if case.node is not None else None,
        step=case.pace.step if case.unit == "step" else None,
        stalled_s=case.stood_s,
        summary=words.summary(case),
        evidence=words.evidence_of(case, limit_s),
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
