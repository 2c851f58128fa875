"""How a rank stands still: dead, stuck, asleep, or at work on something that is no step. Pure.

Used by `standstill`. Told apart by what its daemon saw from outside and its own pulse wrote: where
its main thread stands, bytes to and from files and connections, and what its child processes do.
"""

from enum import IntEnum

from holdfast.protocol.messages import RankProgress
from holdfast.telemetry.analysis.hang import SILENT_S

IDLE_S = 3.0
"""Nothing of a rank moves for so long, sixty looks at its stack: it is called stuck."""
MARKED_STUCK_S = 60.0
"""The same where it says that it pauses: a file system or a store may be slow to answer."""


STOPPED = frozenset({"T", "t"})
"""Letters of proc(5)."""


class Manner(IntEnum):
    """The first that one of the awaited ranks has is that of the standstill."""

    DEAD = 0  # it is stopped, or even its pulse stands still
    WORKING = 1
    ASLEEP = 2  # in one call whose end is known, and near
    STUCK = 3


def manner(seen: RankProgress | None, busy: bool) -> Manner:
    """Of one rank that makes no progress; None: its node is not heard of. `busy`: it uses CPU."""
    if seen is None or seen.process in STOPPED:
        return Manner.DEAD
    at_pause = bool(seen.pause) and (busy or moves(seen))
    if seen.silent_s > SILENT_S and not at_pause:
        return Manner.DEAD
    return Manner.STUCK if idle_s(seen, busy) >= IDLE_S else Manner.WORKING


def moves(seen: RankProgress) -> bool:
    """Whether bytes of it or its children do, by what its daemon sees from outside."""
    return seen.moved_s is not None and seen.moved_s < IDLE_S


def idle_s(seen: RankProgress, busy: bool) -> float:
    """Since anything of it moved. Where its stack is not known CPU counts as work."""
    moved_s = seen.still_s if seen.moved_s is None else min(seen.moved_s, seen.still_s)
    if "stack" in seen.partial or not seen.frame:
        return 0.0 if busy else moved_s
    return min(moved_s, seen.frame_still_s)


def stuck_limit_s(seen: RankProgress | None, stuck_max_s: float) -> float:
    """How long nothing of a stuck rank may move."""
    marked = seen is not None and seen.pause
    return max(MARKED_STUCK_S, stuck_max_s) if marked else stuck_max_s


def asleep(seen: RankProgress | None, stuck_max_s: float, rest_s: float) -> bool:
    """Whether a stuck rank is in one sleep that alone is longer than it may be stuck, and that ends
    within `rest_s`. A loop of shorter ones may wait for what never comes.
    """
    if seen is None or seen.sleep_s < stuck_limit_s(seen, stuck_max_s):
        return False
    return 0.0 < seen.sleep_left_s <= rest_s


def told(seen: RankProgress, found: Manner, busy: bool) -> str:
    """What the rank does, in a sentence."""
    who = f"rank {seen.rank}"
    where = f" in {seen.frame}" if seen.frame else ""
    pause = f"it {seen.pause}, and " if seen.pause else ""
    if found is Manner.DEAD:
        return f"{who} does not run" + (f"; it was{where}" if where else "")
    if found is Manner.ASLEEP:
        return f"{who} sleeps{where}, {seen.sleep_left_s:.0f} s more"
    if found is Manner.STUCK:
        cpu = " but uses CPU" if busy else ""
        nothing = f"nothing of it has moved for {_idle(seen, busy)}{cpu}"
        return f"{who} is stuck{where}{_call(seen)}: {pause}{nothing}"
    return f"{who} is at work{where}: {pause}{_moving(seen)}"


def _call(seen: RankProgress) -> str:
    if not seen.call:
        return ""
    more = f", {seen.sleep_left_s:,.0f} s more" if seen.sleep_left_s > MARKED_STUCK_S else ""
    return f", where it {seen.call}{more}"


def _idle(seen: RankProgress, busy: bool) -> str:
    return f"{idle_s(seen, busy):.1f} s"


def _moving(seen: RankProgress) -> str:
    if moves(seen):
        return seen.moved
    return "its stack changes" if seen.frame else "it uses CPU"
