"""Bursts of nodes' network counters: asked for by a person, or by an incident about the network.

Made by `control`; `process` shows it each committed state. What is taken is kept beside the job's
traces. Decides nothing, and no decision waits for it.
"""

import asyncio
import math
from pathlib import Path

from holdfast.driver.core.state.model import Incident, State
from holdfast.driver.ports import Nodes, PermanentError, TemporaryError
from holdfast.kit.clock import Clock
from holdfast.kit.logs import LazyLogger
from holdfast.protocol.faults import Kind
from holdfast.traces.bursts.kept import Note, keep
from holdfast.traces.bursts.record import MOST_SECONDS, NoBurst, decode

ABOUT = frozenset(
    {
        *(Kind.HANG, Kind.NO_PROGRESS, Kind.STANDSTILL, Kind.COLLECTIVE_MISMATCH),
        *(Kind.LINK_DOWN, Kind.UNREACHABLE, Kind.COUNTERS, Kind.TRAFFIC),
    }
)
"""Kinds of incidents of which rails may tell something: links, and collectives that hang."""
MOST_INVOLVED = 3
"""Nodes of an incident that are asked, the culprit first; and one more of the job that is healthy,
to compare with."""
REST_S = 60.0
"""Between two bursts of a node that nobody asked for."""
BEYOND_S = 15.0
"""What a node may take beyond the seconds that are counted: `daemon.bursts.taker` gives up first,
and says why."""

_log = LazyLogger()


class Busy(Exception):
    """A burst of that node is being taken now."""


class Bursts:
    """Of one driver."""

    def __init__(self, nodes: Nodes, root: Path, clock: Clock) -> None:
        self._nodes, self._root, self._clock = nodes, root, clock
        self._busy: set[str] = set()
        self._last_s: dict[str, float] = {}  # by node, when nobody asked
        self._seen: int | None = None  # newest incident that was looked at
        self._due: asyncio.Queue[tuple[str, str, str, int]] = asyncio.Queue()

    async def take(
        self, job: str, node: str, seconds: float, why: str, *, now: float, incident: int | None
    ) -> Note:
        """Raises `Busy`, `TemporaryError` or `PermanentError` where there is none."""
        if node in self._busy:
            raise Busy
        self._busy.add(node)
        try:
            began_at = self._clock.wall().isoformat(timespec="milliseconds")
            data = await self._nodes.burst(node, seconds, seconds + BEYOND_S)
            burst = decode(data)
            note = Note(
                id=0,
                node=node,
                began_at=began_at,
                began_s=now,
                why=why,
                incident=incident,
                rails=[rail.name for rail in burst.rails],
                samples=len(burst.at_us),
            )
            return await asyncio.to_thread(keep, self._root, job, note, data)
        except NoBurst as error:
            raise TemporaryError(f"node {node}: what it sent {error}") from error
        except OSError as error:
            raise TemporaryError(f"the burst of {node} cannot be kept: {error}") from error
        finally:
            self._busy.discard(node)

    def follow(self, state: State) -> None:
        """Have bursts taken for incidents that are new; not for those of an earlier driver."""
        newest = max(state.incidents, default=0)
        if self._seen is not None:
            for number in range(self._seen + 1, newest + 1):
                if (incident := state.incidents.get(number)) is not None:
                    self._look_at(state, incident)
        self._seen = newest

    async def run(self, group: asyncio.TaskGroup) -> None:
        """For ever: take those that are due, each in a task of its own."""
        while True:
            group.create_task(self._one(*await self._due.get()))

    def _look_at(self, state: State, incident: Incident) -> None:
        if incident.kind not in ABOUT or not incident.jobs:
            return
        job, now_s = incident.jobs[0], self._clock.monotonic_s()
        for node in chosen(incident, tuple(state.jobs[job].places) if job in state.jobs else ()):
            if now_s - self._last_s.get(node, -math.inf) >= REST_S:
                self._last_s[node] = now_s
                why = f"incident {incident.id}: {incident.summary}"
                self._due.put_nowait((job, node, why, incident.id))

    async def _one(self, job: str, node: str, why: str, incident: int) -> None:
        now = self._clock.monotonic_s()
        try:
            await self.take(job, node, MOST_SECONDS, why, now=now, incident=incident)
        except Busy:
            return
        except (TemporaryError, PermanentError) as error:
            _log.info("no burst", node=node, incident=incident, why=str(error))


def chosen(incident: Incident, places: tuple[str, ...]) -> list[str]:
    """Those involved, the culprit first, and one of the job's other nodes."""
    involved = list(dict.fromkeys([*((incident.node,) if incident.node else ()), *incident.nodes]))
    involved = involved[:MOST_INVOLVED] or list(places[:MOST_INVOLVED])
    healthy = [node for node in places if node not in incident.nodes and node not in involved]
    return involved + healthy[:1]
