"""What Prometheus is told by a driver: counts and times by phase, kind, node and job.

Brought up to date when it is asked for, from the state, so that nothing else has to think of it.
"""

import asyncio
from collections import Counter as Tally
from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from holdfast.driver.adapters.metrics.jobs import Jobs
from holdfast.driver.adapters.metrics.requests import Requests
from holdfast.driver.adapters.rest.views import node_state
from holdfast.driver.core.state.model import Incident, Phase
from holdfast.driver.people.control import Control
from holdfast.driver.people.goodput.account import Account
from holdfast.driver.people.node_words import STATES
from holdfast.driver.ports import Figure, TemporaryError
from holdfast.kit.logs import LazyLogger

_log = LazyLogger()

_FAMILIES = {True: CounterMetricFamily, False: GaugeMetricFamily}

WORDS = ("free", "in test", *dict.fromkeys(STATES.values()))
"""Each that a node can be in."""

BUCKETS_S = (0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 60, 300, 900)
"""A restart in place takes tenths of a second, a restore from a far store minutes."""

READ_S = 5.0
"""How long a scrape waits for the journal: half as long as Prometheus waits for it by default."""


class _Given(Collector):
    """Figures that others keep."""

    def __init__(self, figures: Iterable[Figure]) -> None:
        self._figures = figures

    def collect(self) -> Iterator[Metric]:
        for one in self._figures:
            labels = [one.by] if one.by else []
            family = _FAMILIES[one.counts](one.name, one.help, labels=labels)
            for label, value in one.values.items():
                family.add_metric([label] if one.by else [], value)
            yield family


class Metrics:
    """One driver's metrics in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._jobs = self._gauge("jobs", "Jobs by phase.", "phase")
        self._incidents = Counter(
            "holdfast_incidents",
            "Incidents by kind and blame.",
            ["kind", "blame"],
            registry=self.registry,
        )
        self._open = self._gauge("incidents_open", "Incidents under way.")
        self._recoveries = Histogram(
            "holdfast_recovery_seconds",
            "From a fault's finding to the first step never reached before.",
            ["kind"],
            buckets=BUCKETS_S,
            registry=self.registry,
        )
        self._detections = Histogram(
            "holdfast_detection_seconds",
            "How long a fault had lasted when it was found.",
            ["kind"],
            buckets=BUCKETS_S,
            registry=self.registry,
        )
        self.requests = Requests(self.registry)
        lag = "How long a turn of the driver's event loop took just now."
        self._lag = self._gauge("event_loop_lag_seconds", lag)
        connected = "Whether the node's executor is connected (1) or not (0)."
        self._node = self._gauge("node_connected", connected, "node")
        self._nodes = self._gauge("nodes", "Nodes by state.", "state")
        self._sessions = self._gauge("sessions", "Connected executors.")
        self._sequence = self._gauge("journal_sequence", "Newest journal entry.")
        self._accepting = self._gauge("accepting", "Whether new work is taken (1) or not (0).")
        self._brake = self._gauge("brake", "Whether the brake on eviction is on (1) or not (0).")
        self._reading: asyncio.Task[dict[str, Account] | None] | None = None
        self._counted: set[int] = set()
        self._timed: set[int] = set()

    def _gauge(self, name: str, says: str, *by: str) -> Gauge:
        return Gauge(f"holdfast_{name}", says, by, registry=self.registry)

    async def scrape(self, control: Control) -> bytes:
        """All of them, now, in Prometheus' text format."""
        loop = asyncio.get_running_loop()
        before = loop.time()
        await asyncio.sleep(0)
        self._lag.set(loop.time() - before)
        self._take(control)
        now, accounts = control.now(), await self._read(control)
        of_job = control.watch.figures
        jobs = Jobs(control.state, of_job, accounts, control.ledger.restarts, now=now)
        parts = (self.registry, _Given(control.figures()), jobs)
        return b"".join(map(generate_latest, parts))

    async def _read(self, control: Control) -> dict[str, Account] | None:
        """Where the time of jobs went. Of a journal that does not answer one thread waits, however
        often that is asked."""
        if self._reading is None or self._reading.done():
            asked = asyncio.to_thread(_accounts, control, control.now())
            self._reading = asyncio.create_task(asked)
        done, _ = await asyncio.wait({self._reading}, timeout=READ_S)
        return self._reading.result() if done else None

    def _take(self, control: Control) -> None:
        state = control.state
        phases = Tally(job.phase for job in state.jobs.values())
        for phase in Phase:
            self._jobs.labels(phase.value).set(phases[phase])
        self._node.clear()
        for node in state.nodes.values():
            self._node.labels(node.name).set(node.connected)
        states = Tally(node_state(node) for node in state.nodes.values())
        for word in WORDS:
            self._nodes.labels(word).set(states[word])
        self._sessions.set(sum(node.connected for node in state.nodes.values()))
        self._open.set(sum(incident.open for incident in state.incidents.values()))
        self._sequence.set(control.sequence)
        self._accepting.set(control.accepting is None)
        self._brake.set(state.brake.on)
        for incident in state.incidents.values():
            self._count(incident)

    def _count(self, incident: Incident) -> None:
        """Each incident once, and its recovery once, unless the next fault came before that;
        counters start anew with the driver."""
        kind = incident.kind.value
        if incident.id not in self._counted:
            self._counted.add(incident.id)
            self._incidents.labels(kind, incident.blame.value).inc()
            if incident.faults:
                self._detections.labels(kind).observe(incident.stalled_s)
        if incident.overtaken or incident.resumed_s is None or incident.id in self._timed:
            return
        self._timed.add(incident.id)
        self._recoveries.labels(kind).observe(incident.resumed_s - incident.found_s)


def _accounts(control: Control, now: float) -> dict[str, Account] | None:
    """Where the time of jobs went; None where the journal cannot be read, which is said."""
    state = control.state
    try:
        return control.ledger.accounts(control.journal, state, now=now)
    except TemporaryError as error:
        _log.warning("goodput not known to metrics", why=str(error))
        return None
