"""What Prometheus is told by a daemon: its own node's figures, as its last heartbeat has them.

Kept by the loop, served by `serving`. Nothing is told by rank or by step, and nothing is looked at
for a scrape.
"""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from holdfast.protocol.messages import Heartbeat, NicRates

NICS = {
    "sent_bytes_per_second": ("Bytes sent a second.", "sent_bytes_per_s"),
    "received_bytes_per_second": ("Bytes received a second.", "received_bytes_per_s"),
    "errors_per_second": ("Errors a second.", "errors_per_s"),
    "up": ("Whether it is up (1) or not (0).", "up"),
}
PRESSURE = {
    "cpu_pressure": ("Part of the time in which something waited for a core.", "cpu"),
    "memory_pressure": ("Part of the time in which something waited for memory.", "memory"),
    "io_pressure": ("Part of the time in which something waited for a disk.", "io"),
    "scratch_used": ("Part of its disk for jobs that is used.", "scratch_used"),
    "memory_used": ("Part of its memory for snapshots that is used.", "memory_used"),
}


class Figures(Collector):
    """The newest heartbeat, and how many were sent, by this daemon."""

    def __init__(self) -> None:
        self.sent = 0
        self.newest: Heartbeat | None = None
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def told(self, heartbeat: Heartbeat, *, sent: bool) -> None:
        """It was made, and handed to the connection where there is one."""
        self.newest, self.sent = heartbeat, self.sent + sent

    def text(self) -> bytes:
        """In Prometheus' text format."""
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        """Before the first heartbeat there is but the count."""
        yield CounterMetricFamily(
            "holdfast_node_heartbeats_sent", "Heartbeats handed to a driver.", self.sent
        )
        if (beat := self.newest) is None:
            return
        yield _gauge("ranks", "Ranks that write a ring here.", len(beat.ranks))
        alive = "Whether its executor runs (1) or not (0)."
        yield _gauge("executor_alive", alive, beat.executor_alive)
        yield _gauge("unreadable", "What its daemon cannot read now.", len(beat.unreadable))
        for name, (says, field) in PRESSURE.items():
            yield _gauge(name, says, getattr(beat.pressure, field))
        yield from _nics(beat.nics)


def _nics(nics: tuple[NicRates, ...]) -> Iterator[Metric]:
    for name, (says, field) in NICS.items():
        family = GaugeMetricFamily(f"holdfast_nic_{name}", says, labels=["nic"])
        for each in nics:
            family.add_metric([each.name], getattr(each, field))
        yield family


def _gauge(name: str, says: str, value: float) -> Metric:
    return GaugeMetricFamily(f"holdfast_node_{name}", says, value)
