"""Which nodes each daemon probes, and how often it speaks. Pure."""

from collections.abc import Collection, Iterable

from holdfast.driver.watch.model import Expectation, Settings
from holdfast.protocol.messages import WatchOrder

MESH = 16
"""Nodes of a job that stands still, up to which each probes all others: 60 handshakes a second and
daemon, while it stands."""


def instructions(
    nodes: Iterable[str],
    expected: Iterable[Expectation],
    settings: Settings,
    standing: Collection[str] = (),
) -> dict[str, WatchOrder]:
    """What every daemon should do. A ring in name order: each probes the next few with seats; of a
    job that stands still (`standing`) both ways around, all of it where that is small."""
    names, expected = sorted(nodes), tuple(expected)
    seats = [seat for each in expected for seat in each.seats]
    addresses = {seat.node: seat.address for seat in seats}
    ring = sorted(addresses)
    places = {name: place for place, name in enumerate(ring)}
    mesh = _meshes(each for each in expected if each.job in standing)
    return {
        name: WatchOrder(
            heartbeat_period_s=period_s(len(names), settings),
            neighbours=tuple(
                (other, addresses[other])
                for other in dict.fromkeys(
                    (*_next(places.get(name), ring, settings.neighbours), *mesh.get(name, ()))
                )
            ),
        )
        for name in names
    }


def _meshes(standing: Iterable[Expectation]) -> dict[str, list[str]]:
    """By node, whom it probes since its job stands still."""
    found: dict[str, list[str]] = {}
    for each in standing:
        ring = sorted(each.nodes)
        reach = len(ring) if len(ring) <= MESH else MESH // 2
        for place, name in enumerate(ring):
            around = [*_next(place, ring, reach), *_next(len(ring) - 1 - place, ring[::-1], reach)]
            found[name] = list(dict.fromkeys(around))
    return found


def period_s(nodes: int, settings: Settings) -> float:
    """The heartbeat period that keeps the driver's load bounded, whatever the size."""
    return max(settings.heartbeat_period_s, nodes / settings.heartbeats_per_s)


def _next(place: int | None, ring: list[str], count: int) -> list[str]:
    """The next in the ring after `place`, at most once around; None: it is not in the ring."""
    if place is None:
        return []
    steps = range(1, min(count, len(ring) - 1) + 1)
    return [ring[(place + step) % len(ring)] for step in steps]
