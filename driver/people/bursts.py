"""Bursts of nodes' network counters: asked for by a person, or by an incident about the network.

Made by `control`; `process` shows it each committed state. What is taken is kept beside the job's
traces. Decides nothing, and no decision waits for it.
"""

import asyncio
import math
from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

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
MOST_AT_ONCE = 8
"""That nobody asked for: where many incidents come at once the driver has better things to do."""
BEYOND_S = 15.0
"""What a node may take beyond the seconds that are counted: `daemon.bursts.taker` gives up first,
and says why."""

_log = LazyLogger()


class Busy(Exception):
    """A burst of that node is being taken now."""


class Bursts:
    """Of one driver. `now`: its time, which goes on from that of the driver before."""

    def __init__(self, nodes: Nodes, root: Path, clock: Clock, now: Callable[[], float]) -> None:
        self._nodes, self._root, self._clock, self._now = nodes, root, clock, now
        self._busy: set[str] = set()
        self._keeping = asyncio.Lock()  # a number for each, and one core at most
        self._under_way = 0  # that nobody asked for
        self._last_s: dict[str, float] = {}  # by node, when nobody asked
        self._seen: int | None = None  # newest incident that was looked at
        self._due: asyncio.Queue[tuple[str, str, str, int]] = asyncio.Queue()

    async def take(
        self, job: str, node: str, seconds: float, why: str, *, incident: int | None
    ) -> Note:
        """Raises `Busy`, `TemporaryError` or `PermanentError` where there is none."""
        if node in self._busy:
            raise Busy
        self._busy.add(node)
        try:
            note = self._note(node, why, incident)
            data = await self._nodes.burst(node, seconds, seconds + BEYOND_S)
            async with self._keeping:
                return await asyncio.to_thread(_kept, self._root, job, note, data)
        except NoBurst as error:
            raise TemporaryError(f"node {node}: what it sent {error}") from error
        except OSError as error:
            raise TemporaryError(f"the burst of {node} cannot be kept: {error}") from error
        finally:
            self._busy.discard(node)

    def follow(self, state: State) -> None:
        """Have bursts taken for incidents that are new; not for those of an earlier driver."""
        if self._seen is not None:
            for number in sorted(each for each in state.incidents if each > self._seen):
                self._look_at(state, state.incidents[number])
        self._seen = max(state.incidents, default=self._seen or 0)

    async def run(self) -> None:
        """For ever: take those that are due, each in a task of its own; those end with this."""
        async with asyncio.TaskGroup() as taking:
            while True:
                taking.create_task(self._one(*await self._due.get()))

    def _note(self, node: str, why: str, incident: int | None) -> Note:
        """Of one that begins now."""
        return Note(
            id=0,
            node=node,
            began_at=self._clock.wall().isoformat(timespec="milliseconds"),
            began_s=self._now(),
            why=why,
            incident=incident,
            rails=[],
            samples=0,
        )

    def _look_at(self, state: State, incident: Incident) -> None:
        job = next((each for each in incident.jobs if each in state.jobs), None)
        if incident.kind not in ABOUT or job is None:
            return
        now_s, why = self._now(), f"incident {incident.id}: {incident.summary}"
        for node in chosen(incident, state.jobs[job].nodes):
            if self._under_way >= MOST_AT_ONCE:
                _log.info("no burst", node=node, incident=incident.id, why="too many at once")
            elif now_s - self._last_s.get(node, -math.inf) >= REST_S:
                self._last_s[node] = now_s
                self._under_way += 1
                self._due.put_nowait((job, node, why, incident.id))

    async def _one(self, job: str, node: str, why: str, incident: int) -> None:
        try:
            await self.take(job, node, MOST_SECONDS, why, incident=incident)
        except Busy:
            return
        except (TemporaryError, PermanentError) as error:
            _log.info("no burst", node=node, incident=incident, why=str(error))
        except Exception as error:  # noqa: BLE001 no burst ends a driver
            _log.error("defect in a burst", node=node, incident=incident, exc_info=error)
        finally:
            self._under_way -= 1


def _kept(root: Path, job: str, note: Note, data: bytes) -> Note:
    """In a thread: of eight rails it reads 300,000 numbers. Raises `NoBurst` or `OSError`."""
    burst = decode(data)
    rails = [rail.name for rail in burst.rails]
    return keep(root, job, replace(note, rails=rails, samples=len(burst.at_us)), data)


def chosen(incident: Incident, nodes: tuple[str, ...]) -> list[str]:
    """Those involved, the culprit first, and one of the job's other nodes."""
    culprit = (incident.node,) if incident.node else ()
    known = [*dict.fromkeys([*culprit, *incident.nodes])] or list(nodes)
    involved = known[:MOST_INVOLVED]
    healthy = [node for node in nodes if node not in incident.nodes and node not in involved]
    return involved + healthy[:1]
