"""What the daemons of the simulated nodes tell: made up to fit what their ranks really do.

Called by `detectors`. A rank that trains is in its step; when its run stands still, the others wait
in a collective that one has not entered: one on a bad node, else the first of all. Ranks that are
paused do not run, and nobody waits for one of them where nodes cannot reach each other.
"""

from collections.abc import Iterator, Mapping

from holdfast.lab.simulator.machines import Machine, Process
from holdfast.lab.simulator.scenario import STEP_S
from holdfast.lab.simulator.training import Run
from holdfast.lab.simulator.world import World
from holdfast.protocol.messages import GroupProgress, Heartbeat, Probe, RankProgress, WatchOrder


class Daemons:
    """One on each machine that is up."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._sequence = 0
        self._silent_s: dict[tuple[str, str], float] = {}  # who got no answer of whom, since when

    def beats(self, orders: Mapping[str, WatchOrder]) -> Iterator[Heartbeat]:
        """One of each that the driver can hear."""
        self._sequence += 1
        for node, machine in self._world.machines.items():
            if machine.up and not machine.cut:
                yield self._beat(node, machine, orders.get(node))

    def _beat(self, node: str, machine: Machine, order: WatchOrder | None) -> Heartbeat:
        probed = () if order is None else order.neighbours
        return Heartbeat(
            node=node,
            incarnation=node,
            sequence=self._sequence,
            uptime_s=self._world.now,
            executor_alive=machine.executor is not None,
            probes=tuple(self._probe(node, other) for other, _ in probed),
            ranks=tuple(_ranks(self._world, node, machine.executor)),
        )

    def _probe(self, node: str, other: str) -> Probe:
        machine, now = self._world.machines[other], self._world.now
        parted = (min(node, other), max(node, other)) in self._world.parted
        if machine.up and not (machine.cut or parted):
            self._silent_s.pop((node, other), None)
            return Probe(node=other, ok=True)
        since_s = self._silent_s.setdefault((node, other), now)
        return Probe(node=other, ok=False, silent_s=now - since_s)


def _ranks(world: World, node: str, executor: Process | None) -> Iterator[RankProgress]:
    run = executor.run if executor is not None else None
    if executor is None or run is None:
        return
    culprit = _culprit(world, run)
    for rank in run.ranks[node]:
        yield _rank(world, run, rank, gone=rank in executor.exits, absent=rank == culprit)


def _culprit(world: World, run: Run) -> int | None:
    """Who has not entered what the others wait in."""
    if run.training or world.parted_in(run):
        return None
    bad = (node for node in run.nodes if world.machines[node].bad)
    return run.ranks[next(bad, run.nodes[0])][0]


def _rank(world: World, run: Run, rank: int, *, gone: bool, absent: bool) -> RankProgress:
    now, step = world.now, run.step(world.now)
    stood_s = now - run.stood_s if run.ended is not None and run.stood_s is not None else 0.0
    trains_s = now - run.since_s if run.training and run.since_s is not None else 0.0
    stopped = stood_s > 0 and (absent or bool(run.doubt))
    entered = step + (stood_s > 0 and not absent)
    members = tuple(each for ranks in run.ranks.values() for each in ranks)
    return RankProgress(
        rank=rank,
        epoch=run.epoch,
        job=run.job.name,
        pid=1_000 * run.epoch + rank,
        process="gone" if gone else "T" if stopped else "S",
        step=step if step > run.start else 0,
        hooks=True,
        still_s=stood_s or trains_s % STEP_S,
        silent_s=stood_s if stopped else 0.0,
        groups=(
            GroupProgress(members=1, kind="all_reduce", enqueued=entered, done=step, ranks=members),
        ),
    )
