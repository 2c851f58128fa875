"""What the driver's detectors would tell of a case's job, and when.

As `driver.watch.standstill` and `driver.watch.silence` do, from what they are told to expect: a
rank that is stuck is acted on after the job's `stuckMaxS`, one that is at work after its
`pauseMaxS`, each later for each restart that its place in the script has had.
"""

import msgspec

from holdfast.driver.core.state.model import Job
from holdfast.driver.follow.feed import expectation
from holdfast.lab.simulator.cases.trouble import Manner
from holdfast.protocol.faults import Evidence, Finding, Kind, Weight

FACTOR, LONGEST_S = 4, 3_600.0
"""Of `driver.watch.standstill_limits`, which earlier drivers that play these cases do not have."""
LOST_S = 3.0
"""From the last heartbeat of a node until that and its neighbours' probes say that it is lost."""


class Detectors:
    """What they remember of the job, over its epochs."""

    def __init__(self) -> None:
        self._pause_s = 0.0  # the longest that ended by itself

    def said_after_s(self, job: Job) -> float:
        """How long a job may go without a step before that is said."""
        return max(expectation(job).hang_floor_s, 2 * self._pause_s)

    def acts_after_s(self, job: Job, manner: Manner, spot: str) -> float:
        """And before something is done about it."""
        expected = expectation(job)
        limit_s = expected.pause_max_s if manner is Manner.PAUSE else expected.stuck_s
        return max(limit_s, min(limit_s * float(FACTOR) ** expected.spots.get(spot, 0), LONGEST_S))

    def passed(self, pause_s: float) -> None:
        """A standstill ended by itself."""
        self._pause_s = max(self._pause_s, pause_s)

    def hang(
        self,
        job: Job,
        manner: Manner,
        node: str | None,
        rank: int | None,
        spot: str,
        stood_s: float,
    ) -> Finding:
        """A standstill that is acted on."""
        does = "is at work" if manner is Manner.PAUSE else "is stuck"
        who = f"rank {rank} on {node} {does}" if node else f"the ranks of {job.name} stand still"
        told = Finding(
            kind=Kind.HANG if node else Kind.NO_PROGRESS,
            weight=Weight.RESTART,
            job=job.name,
            epoch=job.epoch,
            node=node,
            rank=rank,
            step=_step_of(spot),
            stalled_s=stood_s,
            summary=f"{who}, no step for {stood_s:.0f} s",
            evidence=(Evidence(source="detector", text=f"{who} in {spot}"),),
            spot=spot,
        )
        return _with(told, stuck=manner is not Manner.PAUSE)

    def standstill(self, job: Job, kind: Kind, node: str | None, step: int) -> Finding:
        """One that is said, or that it is over."""
        return Finding(
            kind=kind,
            weight=Weight.REPORT,
            job=job.name,
            epoch=job.epoch,
            node=node,
            step=step,
            summary=f"{job.name}: {kind} at step {step}",
        )


def _with(finding: Finding, **told: bool) -> Finding:
    """With what findings can tell: those of an earlier driver, which may play a case, know less."""
    known = {name: each for name, each in told.items() if name in Finding.__struct_fields__}
    return msgspec.structs.replace(finding, **known)


def lost(node: str) -> Finding:
    """Its heartbeats are missing, and its neighbours get no answer."""
    return Finding(
        kind=Kind.NODE_LOST,
        weight=Weight.CONCLUSIVE,
        node=node,
        stalled_s=LOST_S,
        summary=f"{node} is lost: silent for {LOST_S:.1f} s, and its neighbours get no answer",
        evidence=(Evidence(source="driver", text=f"{node} sent no heartbeat for {LOST_S:.1f} s"),),
    )


def spot_of(manner: Manner, step: int) -> str:
    """Where in the script it stands still: the same after a restart that changes nothing."""
    where = "evaluate.py:12" if manner is Manner.PAUSE else f"all_reduce #{3 * step + 1}"
    return f"{where}, step {step}"


def _step_of(spot: str) -> int:
    return int(spot.rpartition(" ")[2])
