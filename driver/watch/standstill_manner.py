"""How a rank stands still: dead, stuck, asleep, or at work on something that is no step. Pure.

Used by `standstill`. Told apart by what its daemon saw from outside and its own pulse wrote: where
its main thread stands, CPU, bytes to and from files and connections, and what its child processes
do.
"""

import math
from enum import IntEnum

import msgspec

from holdfast.protocol.messages import RankProgress
from holdfast.telemetry.analysis.hang import SILENT_S, in_collective

IDLE_S = 3.0
"""Nothing of a rank moves for so long, sixty looks at its stack: it is called stuck."""
MARKED_STUCK_S = 60.0
"""The same where it says that it pauses: a file system or a store may be slow to answer."""


WAKES = 0.9
"""Share of that for which one sleep protects: who slept so long is seen awake when it is over."""

BUSY_SHARE = 0.5
"""CPU seconds a second that it could have had one, above which a rank is at work on something."""
STOPPED = frozenset({"T", "t"})
GONE = frozenset({"gone", "Z", "X"})
"""Letters of proc(5)."""


class Cpu(msgspec.Struct, frozen=True):
    """Of one rank: whether it uses CPU now, and since when none that it used was work."""

    busy: bool = False
    worked_s: float = math.inf


NO_CPU = Cpu()


class Manner(IntEnum):
    """The first that one of the awaited ranks has is that of the standstill."""

    DEAD = 0  # it is stopped, or even its pulse stands still
    WORKING = 1
    ASLEEP = 2  # in one call whose end is known, and near
    STUCK = 3


def works(seen: RankProgress, share: float) -> bool:
    """Whether so much CPU is work: in a pause that the rank marks, but for a collective, where some
    libraries wait by spinning; and where nothing else tells of the rank.
    """
    at_pause = bool(seen.pause) and not in_collective(seen)
    return share > BUSY_SHARE and (at_pause or not _stack_known(seen))


def manner(seen: RankProgress | None, cpu: Cpu) -> Manner:
    """Of one rank that makes no progress; None: its node is not heard of."""
    if seen is None:
        return Manner.DEAD
    # In a pause a call may let no other thread run, nor the pulse, and works for all that.
    works_on = cpu.worked_s < IDLE_S or moves(seen)
    at_pause = bool(seen.pause) and works_on and seen.process not in STOPPED
    if seen.silent_s > SILENT_S and not at_pause:
        return Manner.DEAD
    return Manner.STUCK if idle_s(seen, cpu) >= IDLE_S else Manner.WORKING


def just_dark(seen: RankProgress | None) -> bool:
    """Whether its pulse has stopped only lately: where others use the processors it comes late."""
    return seen is not None and seen.process not in STOPPED and SILENT_S < seen.silent_s < IDLE_S


def moves(seen: RankProgress) -> bool:
    """Whether bytes of it or its children do, by what its daemon sees from outside."""
    return seen.moved_s is not None and seen.moved_s < IDLE_S


def idle_s(seen: RankProgress, cpu: Cpu) -> float:
    """Since anything of it moved, or it worked."""
    ages = [seen.still_s, cpu.worked_s]
    ages += [] if seen.moved_s is None else [seen.moved_s]
    ages += [seen.frame_still_s] if _stack_known(seen) else []
    return min(ages)


def _stack_known(seen: RankProgress) -> bool:
    return bool(seen.frame) and "stack" not in seen.partial


def stuck_limit_s(seen: RankProgress | None, stuck_max_s: float) -> float:
    """How long nothing of a stuck rank may move."""
    marked = seen is not None and seen.pause
    return max(MARKED_STUCK_S, stuck_max_s) if marked else stuck_max_s


def asleep(seen: RankProgress | None, stuck_max_s: float, rest_s: float) -> bool:
    """Whether a stuck rank is in one sleep that alone is about as long as it may be stuck, and that
    ends within `rest_s`. A loop of shorter ones may wait for what never comes.
    """
    if seen is None or seen.sleep_s < WAKES * stuck_limit_s(seen, stuck_max_s):
        return False
    return 0.0 < seen.sleep_left_s <= rest_s


def told(seen: RankProgress, found: Manner, cpu: Cpu) -> str:
    """What the rank does, in a sentence: no more than is seen of one that may only pause."""
    who = f"rank {seen.rank}"
    where = f" in {seen.frame}" if seen.frame else ""
    pause = f"it {seen.pause}, and " if seen.pause else ""
    if found is Manner.DEAD:
        return f"{who} does not run" + (f"; it was{where}" if where else "")
    if found is Manner.ASLEEP:
        return f"{who} sleeps{where}, {seen.sleep_left_s:.0f} s more"
    if found is Manner.STUCK:
        spins = ", though it uses CPU" if cpu.busy else ""
        nothing = f"nothing of it is seen to move for {idle_s(seen, cpu):.1f} s{spins}"
        return f"{who} stands still{where}{_call(seen)}: {pause}{nothing}"
    return f"{who} is at work{where}: {pause}{_moving(seen, cpu)}"


def _call(seen: RankProgress) -> str:
    if not seen.call:
        return ""
    more = f", {seen.sleep_left_s:,.0f} s more" if seen.sleep_left_s > MARKED_STUCK_S else ""
    return f", where it {seen.call}{more}"


def _moving(seen: RankProgress, cpu: Cpu) -> str:
    if moves(seen):
        return seen.moved
    stands = not seen.frame or seen.frame_still_s >= IDLE_S
    return "it uses CPU" if stands and cpu.worked_s < IDLE_S else "its stack changes"
