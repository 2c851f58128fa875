"""A standstill as it is at one moment: who it is put down to, and how that rank stands. Pure.

Made by `standstill` of what is known of the job.
"""

from collections import Counter
from collections.abc import Mapping

import msgspec

from holdfast.driver.watch import collective_diverged
from holdfast.driver.watch.collective_diverged import Odd
from holdfast.driver.watch.model import RELATIVE, Expectation, Ranks, Settings
from holdfast.driver.watch.pace import Pace
from holdfast.driver.watch.standstill_manner import (
    NO_CPU,
    STOPPED,
    Cpu,
    Manner,
    asleep,
    idle_s,
    manner,
)
from holdfast.protocol.messages import RankProgress
from holdfast.telemetry.analysis import hang

FEW_PLACES = 3
"""Lines at which ranks stand, of which it is told who stands alone."""


class JobView(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a job now. `ranks` is the progress of those that are heard of, aged to
    `now`; `cpu` what they use; `unit` is what the pace is of, steps or collectives; `odd` is who is
    in another collective than its peers, where that was found: then nobody waits in vain for
    anybody else.
    """

    expected: Expectation
    ranks: Ranks
    pace: Pace
    cpu: Mapping[int, Cpu]
    settings: Settings
    now: float
    unit: str = "step"
    odd: Odd | None = None

    @property
    def watched(self) -> Ranks:
        return {rank: seen for rank, seen in self.ranks.items() if seen.hooks}


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
    unlike: bool = False  # they are in such, whether or not all have come to theirs
    places: str = ""  # who stands elsewhere than the others, where nobody is named

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


def case_of(view: JobView, stood_s: float) -> Case:
    """Put the standstill down to somebody: a dead rank first, then one that works."""
    expected, ranks, cpu, odd = view.expected, view.watched, view.cpu, view.odd
    missing = {seat.rank for seat in expected.seats} - view.ranks.keys()
    verdict = hang.culprit(ranks, missing) if odd is None else _of_odd(odd)
    asked = [verdict.rank, *verdict.others] if verdict.rank is not None else _by_place(ranks)
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
        pace=view.pace,
        unit=view.unit,
        rank=first if named else None,
        seen=seen,
        manner=found,
        cpu=cpu.get(first, NO_CPU) if first is not None else NO_CPU,
        stood_s=stood_s,
        spot=_spot(seen, view.pace),
        apart_s=collective_diverged.stand_s(odd, ranks),
        unlike=odd is not None,
        places=_places(ranks) if not named else "",
    )


def _by_place(ranks: Ranks) -> list[int]:
    """First who stands where few others do: it tells most where nobody is named."""
    alike = Counter(seen.frame for seen in ranks.values())
    return sorted(ranks, key=lambda rank: (alike[ranks[rank].frame], rank))


def _places(ranks: Ranks) -> str:
    """`rank 1 stands in load (data.py:7), 2 others in step (train.py:31)`; "" where all stand in
    one place, or in too many."""
    alike = Counter(ranks[rank].frame for rank in _by_place(ranks))
    if not 1 < len(alike) <= FEW_PLACES or not all(alike):
        return ""
    (rare, count), *others = sorted(alike.items(), key=lambda each: each[1])
    if count > 1 or len(ranks) == len(alike):
        return ""
    alone = next(rank for rank, seen in ranks.items() if seen.frame == rare)
    rest = ", ".join(f"{n} other{'s'[: n != 1]} in {frame}" for frame, n in reversed(others))
    return f"rank {alone} stands in {rare}, {rest}"


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
