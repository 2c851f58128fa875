"""Which nodes each daemon probes, and how often it speaks. Pure."""

from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from holdfast.driver.watch.model import Expectation, Settings
from holdfast.protocol.messages import Traced, WatchOrder

MESH = 16
"""Nodes of a job that stands still, up to which each probes all others: 60 handshakes a second and
daemon, while it stands."""

Orders = Mapping[str, WatchOrder]
"""By node, what its daemon should do."""
Probed = tuple[str, str]
"""A node, and its address."""


def instructions(
    nodes: Iterable[str], expected: Iterable[Expectation], settings: Settings
) -> Orders:
    """What every daemon should do. A ring in name order: each probes the next few with seats."""
    names, jobs = sorted(nodes), tuple(expected)
    ring, traced = _ring(jobs), _traced(jobs)
    reach = min(settings.neighbours, len(ring) - 1)
    after = {node: _next(ring, place, reach) for place, (node, _) in enumerate(ring)}
    period = period_s(len(names), settings)
    return {
        name: WatchOrder(
            heartbeat_period_s=period,
            neighbours=after.get(name, ()),
            traced=tuple(traced.get(name, ())),
        )
        for name in names
    }


def standing(orders: Orders, job: Expectation) -> Orders:
    """The same where this job stands still: its nodes probe both ways around it as well, all of it
    where that is small, and keep all spans of its ranks."""
    ring = _ring([job])
    reach = len(ring) - 1 if len(ring) <= MESH else MESH // 2
    probed = dict(orders)
    for place, (name, _) in enumerate(ring):
        if order := orders.get(name):
            around = *_next(ring, place, reach), *_next(ring, place - reach - 1, reach)
            others = tuple(dict.fromkeys((*order.neighbours, *around)))
            traced = tuple(
                replace(each, whole=True) if each.job == job.job else each for each in order.traced
            )
            probed[name] = replace(order, neighbours=others, traced=traced)
    return probed


def period_s(nodes: int, settings: Settings) -> float:
    """The heartbeat period that keeps the driver's load bounded, whatever the size."""
    return max(settings.heartbeat_period_s, nodes / settings.heartbeats_per_s)


def _traced(expected: Iterable[Expectation]) -> dict[str, list[Traced]]:
    """By node, the jobs with seats there."""
    found: dict[str, list[Traced]] = {}
    for each in expected:
        for node in each.nodes:
            found.setdefault(node, []).append(Traced(job=each.job, submitted_s=each.submitted_s))
    return found


def _ring(expected: Iterable[Expectation]) -> list[Probed]:
    """The nodes with seats, in name order."""
    return sorted({seat.node: seat.address for each in expected for seat in each.seats}.items())


def _next(ring: Sequence[Probed], place: int, reach: int) -> tuple[Probed, ...]:
    """So many after `place`, around the ring."""
    return tuple([ring[(place + step) % len(ring)] for step in range(1, reach + 1)])
