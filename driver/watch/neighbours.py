"""Which nodes each daemon probes, and how often it speaks. Pure."""

from collections.abc import Iterable, Mapping

from holdfast.driver.watch.model import Expectation, Settings
from holdfast.protocol.messages import Watch


def instructions(
    nodes: Iterable[str], expected: Iterable[Expectation], settings: Settings
) -> dict[str, Watch]:
    """What every daemon should do. A ring in name order: each probes the next few with seats."""
    names = sorted(nodes)
    seats = [seat for each in expected for seat in each.seats]
    addresses = {seat.node: seat.address for seat in seats}
    rules = _rules(expected)
    ring = sorted(addresses)
    return {
        name: Watch(
            heartbeat_period_s=period_s(len(names), settings),
            neighbours=tuple(
                (other, addresses[other]) for other in _next(name, ring, settings.neighbours)
            ),
            log_rules=rules.get(name, ()),
        )
        for name in names
    }


def period_s(nodes: int, settings: Settings) -> float:
    """The heartbeat period that keeps the driver's load bounded, whatever the size."""
    return max(settings.heartbeat_period_s, nodes / settings.heartbeats_per_s)


def _next(name: str, ring: list[str], count: int) -> list[str]:
    if name not in ring:
        return []
    at = ring.index(name)
    turned = ring[at + 1 :] + ring[:at]
    return turned[:count]


def _rules(expected: Iterable[Expectation]) -> Mapping[str, tuple[str, ...]]:
    return {
        node: tuple(pattern for pattern, _ in each.log_rules)
        for each in expected
        for node in each.nodes
    }
