"""Which nodes each daemon probes, and how often it speaks. Pure."""

from collections.abc import Iterable

from holdfast.driver.watch.model import Expectation, Settings
from holdfast.protocol.messages import WatchOrder


def instructions(
    nodes: Iterable[str], expected: Iterable[Expectation], settings: Settings
) -> dict[str, WatchOrder]:
    """What every daemon should do. A ring in name order: each probes the next few with seats."""
    names = sorted(nodes)
    seats = [seat for each in expected for seat in each.seats]
    addresses = {seat.node: seat.address for seat in seats}
    ring = sorted(addresses)
    places = {name: place for place, name in enumerate(ring)}
    return {
        name: WatchOrder(
            heartbeat_period_s=period_s(len(names), settings),
            neighbours=tuple(
                (other, addresses[other])
                for other in _next(places.get(name), ring, settings.neighbours)
            ),
        )
        for name in names
    }


def period_s(nodes: int, settings: Settings) -> float:
    """The heartbeat period that keeps the driver's load bounded, whatever the size."""
    return max(settings.heartbeat_period_s, nodes / settings.heartbeats_per_s)


def _next(place: int | None, ring: list[str], count: int) -> list[str]:
    """The next in the ring after `place`, at most once around; None: it is not in the ring."""
    if place is None:
        return []
    steps = range(1, min(count, len(ring) - 1) + 1)
    return [ring[(place + step) % len(ring)] for step in steps]
