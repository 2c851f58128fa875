"""One epoch of a job's training as it really goes in the simulated world, whatever anybody thinks.

Kept by the world. Progress is worked out from the time when it is asked for, so that a step costs
no event.
"""

from holdfast.lab.simulator.scenario import STEP_S, SimJob
from holdfast.protocol.messages import Restore, Seat, Snapshot


class Run:
    """Ranks of one epoch: all up, they train; one gone, the rest stand still."""

    def __init__(self, job: SimJob, epoch: int, seats: tuple[Seat, ...], start: int) -> None:
        self.job = job
        self.epoch = epoch
        self.start = start
        self.nodes = tuple(dict.fromkeys(seat.node for seat in seats))
        self.ranks = {
            node: tuple(seat.rank for seat in seats if seat.node == node) for node in self.nodes
        }
        self.up: set[str] = set()
        self.since_s: float | None = None  # training since
        self.ended: int | None = None  # step at which it stood still for ever
        self.stood_s: float | None = None  # since when
        self.doubt = ""  # why the driver's detectors doubt that it is a fault

    @property
    def training(self) -> bool:
        return self.since_s is not None and self.ended is None

    def step(self, now: float) -> int:
        """Steps that all ranks have completed."""
        if self.ended is not None:
            return self.ended
        if self.since_s is None:
            return self.start
        return min(self.job.steps, self.start + int((now - self.since_s) / STEP_S + 1e-6))

    def node_up(self, node: str, now: float) -> bool:
        """Ranks of `node` have started. True if now all train."""
        self.up.add(node)
        if self.ended is None and self.since_s is None and self.up == set(self.nodes):
            self.since_s = now
            return True
        return False

    def stand_still(self, now: float) -> None:
        self.ended = self.step(now)
        self.stood_s = now

    def go_on(self, now: float) -> None:
        """It stood still for a while, and nothing of it was lost."""
        if self.since_s is not None and self.stood_s is not None:
            self.since_s += now - self.stood_s
        self.ended, self.doubt = None, ""

    def snapshots(self, node: str, now: float) -> tuple[Snapshot, ...]:
        """The two newest sealed snapshots of the node's ranks; what was not trained has none."""
        every = self.job.memory_every
        newest = self.step(now) // every * every
        steps = [step for step in (newest, newest - every) if step > self.start]
        return tuple(
            Snapshot(rank=rank, step=step, epoch=self.epoch)
            for rank in self.ranks[node]
            for step in steps
        )

    def stored(self, now: float) -> set[tuple[int, int]]:
        """Whole checkpoints that it has written, as (step, epoch)."""
        every = self.job.store_every
        if not every:
            return set()
        last = self.step(now)
        first = (self.start // every + 1) * every
        return {(step, self.epoch) for step in range(first, last + 1, every)}

    def newest_stored(self, now: float) -> int | None:
        """The last step of these; None where there is none."""
        every = self.job.store_every
        step = self.step(now) // every * every if every else 0
        return step if step > self.start else None


def start_of(restore: Restore | None) -> int:
    return restore.step if restore is not None else 0
