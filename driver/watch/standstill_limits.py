"""How long a job may stand still before that is said, and before something is done. Pure.

Asked by `standstill`. Said early of a rank that does not run, which is no work; else at the floor
of the job.
"""

import msgspec

from holdfast.driver.watch import pauses
from holdfast.driver.watch.model import Expectation, Settings
from holdfast.driver.watch.pace import Pace
from holdfast.driver.watch.pauses import FACTOR, Lines
from holdfast.driver.watch.standstill_case import Case
from holdfast.driver.watch.standstill_manner import (
    STOPPED,
    Manner,
    just_dark,
    moves,
    stuck_limit_s,
)

NAMED_S = 2.0
"""Before a rank that does not run is named; what is done comes at the job's own floor."""
DARK_FLOORS = 6
"""Floors after which a rank whose process does not run is a hang also before the first step."""
YOUNG_SAID = 0.5
"""Share of its time before the first step that is over when people are told that it makes none."""
TIMES, LONGEST_S = 4, 3_600.0
"""Each restart at one spot makes the next one there so much later, up to an hour."""
PULSE_LATE_S = 1.0
"""By how much a pulse that stopped with the job may seem younger than its last step: a sample and a
heartbeat. (One that has only just stopped is a call that lets no other thread run.)"""


class Still(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """State of one job: what was told, and what paused before."""

    epoch: int
    began_s: float
    looked_s: float = 0.0  # when waits were last followed
    told_epoch: int | None = None
    named: str = ""  # whom the standstill under way was said to be of
    named_step: int = 0
    cause: str = ""  # what was said with it
    named_s: float = 0.0  # the limit that was said with it: a shorter one is said, too
    paused: Lines = {}  # what ended by itself, by where in the script
    under_way: Lines = {}  # the same of the standstill under way
    under_step: int = 0  # the step after which that began


def said_after_s(still: Still, case: Case, settings: Settings) -> float:
    """Before it is said, and nothing done."""
    expected, pace = case.expected, case.pace
    if case.young:
        waits = case.rank is not None and case.manner is not Manner.DEAD
        known_s = DARK_FLOORS * expected.hang_floor_s if waits else expected.first_step_s
        return min(known_s, YOUNG_SAID * expected.first_step_s)
    known = pauses.known_at(still.paused, case)
    if case.manner is not Manner.DEAD:
        short_s = FACTOR * _short_s(case)
        return max(_steps_s(expected, pace, settings), short_s, FACTOR * known.lasted_s)
    usual_s = settings.hang_periods * (pace.median_s or 0.0)
    return max(usual_s, NAMED_S, FACTOR * known.dead_s, FACTOR * min(pace.pause_s, NAMED_S))


def _short_s(case: Case) -> float:
    """The job's longest pause, wherever it was, as far as none that is shorter than the floor is
    looked at: where it was is not known."""
    return min(case.pace.pause_s, case.expected.hang_floor_s)


def stuck_as_never(still: Still, case: Case, settings: Settings) -> bool:
    """Whether it is stuck for longer than what was learned of such pauses explains: one in which it
    worked explains none. Shorter ones than the floor are learned together. (Before the first step
    the time for that is usual, and it is said at half of it.)"""
    if case.manner is not Manner.STUCK:
        return False
    known_s = FACTOR * pauses.known_at(still.paused, case).idle_s
    usual_s = _steps_s(case.expected, case.pace, settings)
    return counted_s(case) > max(usual_s, FACTOR * _short_s(case), known_s)


def is_unsure(case: Case) -> bool:
    """Whether it is too early to say that the rank does not run."""
    return case.manner is Manner.DEAD and just_dark(case.seen)


def looked_at_after_s(expected: Expectation, pace: Pace, settings: Settings) -> float:
    """Before that nothing is looked at: nothing is said or done of any case."""
    if pace.stepped_s is None:
        return min(YOUNG_SAID * expected.first_step_s, DARK_FLOORS * expected.hang_floor_s)
    usual_s = settings.hang_periods * (pace.median_s or 0.0)
    return min(max(usual_s, NAMED_S), expected.pause_max_s)


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
    known = pauses.known_at(still.paused, case)
    if case.manner is Manner.DEAD:
        limit_s = max(usual_s, FACTOR * known.dead_s, _without_pulse_s(case))
    elif case.manner is Manner.STUCK:
        limit_s = max(usual_s, stuck_limit_s(case.seen, expected.stuck_s), FACTOR * known.idle_s)
    else:
        limit_s = max(usual_s, expected.pause_max_s, FACTOR * known.lasted_s)
    return _more(expected, case.spot, limit_s)


def _without_pulse_s(case: Case) -> float:
    """In a job that pauses: a call in a pause may let no pulse go. A process that is stopped is in
    none."""
    stopped = case.seen is not None and case.seen.process in STOPPED
    return 0.0 if stopped else FACTOR * _short_s(case)


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
    return max(limit_s, min(limit_s * float(TIMES) ** restarts, LONGEST_S))


def counted_s(case: Case) -> float:
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
