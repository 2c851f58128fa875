"""Pauses that ended by themselves, by where in the script the rank stood that the others waited
for. Pure.

Used by `standstill`. A rank that stands is known by its line; one that is at work by its function,
through whose lines it goes. A pause that ended at one line explains none at another.
"""

from collections.abc import Mapping

from holdfast.driver.watch.standstill_case import Case
from holdfast.driver.watch.standstill_manner import STOPPED, Manner
from holdfast.protocol.faults import Pause

MOST = 32
"""Lines that are kept of a job, those where it paused last: a job has a handful."""
FACTOR = 2
"""A pause is nothing to act on, nor to tell, before it is so many times the longest one there."""
BY_A_HAND = "(stopped)"
"""Line of a rank that somebody stopped, wherever it was: that is no pause of the script."""
NONE = Pause()

Lines = Mapping[str, Pause]


def line_of(case: Case) -> str:
    """`evaluate (train.py:31)`, `evaluate (train.py)` of one at work; "" where that is not seen."""
    seen = case.seen
    if seen is None:
        return ""
    if seen.process in STOPPED:
        return BY_A_HAND
    if case.manner is not Manner.WORKING:
        return seen.frame
    function, _, number = seen.frame.rpartition(":")
    return f"{function})" if number else seen.frame


def known_at(known: Lines, case: Case) -> Pause:
    return known.get(line_of(case), NONE)


def looked(under_way: Lines, case: Case) -> Lines:
    """The standstill under way, as it is now. What is shorter than the floor is the job's as a
    whole: with some thirty lines at which a step took longer nothing else would be kept."""
    manner, seen = case.manner, case.seen
    short = case.stood_s <= case.expected.hang_floor_s and manner is not Manner.DEAD
    if case.young or short:  # how long it prepares tells nothing of its pauses
        return under_way
    dead_s = seen.silent_s if manner is Manner.DEAD and seen is not None else 0.0
    idle_s = case.idle_s if manner is Manner.STUCK else 0.0
    now = Pause(lasted_s=case.stood_s, idle_s=idle_s, dead_s=dead_s)
    return longest(under_way, {line_of(case): now})


def longest(known: Lines, more: Lines) -> Lines:
    """Of each line; those of `more` are the newest."""
    others = {line: each for line, each in known.items() if line not in more}
    newest = {line: _longer(known.get(line, NONE), each) for line, each in more.items()}
    return dict(list({**others, **newest}.items())[-MOST:])


def _longer(one: Pause, other: Pause) -> Pause:
    return Pause(
        lasted_s=max(one.lasted_s, other.lasted_s),
        idle_s=max(one.idle_s, other.idle_s),
        dead_s=max(one.dead_s, other.dead_s),
    )
