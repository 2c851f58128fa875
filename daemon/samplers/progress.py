"""The ranks of this node: their rings, ten times a second, and their processes from outside.

Called by the daemon's loop. A ring that cannot be read is said once, and its rank gets the care
that its executor gives any process. Must not conclude anything: the driver's detectors do.
"""

import math
import re
from collections.abc import Callable
from pathlib import Path

import msgspec

from holdfast.daemon.samplers import processes
from holdfast.daemon.samplers.activity import Moves
from holdfast.daemon.samplers.processors import Processors
from holdfast.daemon.samplers.sockets import Sockets
from holdfast.kit import procstat
from holdfast.kit.logs import LazyLogger
from holdfast.protocol.messages import GroupProgress, RankProgress, Recent
from holdfast.telemetry.ring import RingError, RingReader

_NAME = re.compile(
    r"(?P<job>[\w.-]{1,200})\.e(?P<epoch>\d{1,9})\.r(?P<rank>\d{1,9})\.ring", re.ASCII
)
"""As `protocol.paths.NodePaths.ring` has it: ranks write to that folder, too."""
FORGET_GONE_S = 30.0
"""How long the ring of a process that is gone is still told of."""
LISTED_MEMBERS = 64
LOOK_AFTER_S = 1.0
"""A rank that has stood still for so long is looked at for what else it does (bytes, children), and
for which collectives it was in."""
TELL_UNTIL_S = 10.0
"""So long that several heartbeats have those collectives, and how a rank started: of a job of
thousands that stands for minutes they would be megabytes a second."""

_log = LazyLogger()


class Progress:
    """All rings of the node; `sample` often, `ranks` when a heartbeat is due."""

    def __init__(self, rings: Path) -> None:
        self._rings = rings
        self._open: dict[Path, Ring] = {}
        self._sockets = Sockets()
        self._refused: dict[Path, str] = {}

    @property
    def unreadable(self) -> tuple[str, ...]:
        """Rings that are none, or another version's."""
        return tuple(self._refused.values())

    def sample(self, now: float) -> bool:
        """Look at everything once. True where something happened that cannot wait."""
        self._scan()
        urgent = [self._looked(path, lambda ring: ring.sample(now)) for path in tuple(self._open)]
        lost = {ring.attempt for ring in self._open.values() if ring.has_just_gone(now)}
        for path in [path for path, ring in self._open.items() if ring.attempt in lost]:
            self._looked(path, Ring.recall)
        return any(urgent)

    def _looked(self, path: Path, look: Callable[["Ring"], bool]) -> bool:
        try:
            return look(self._open[path])
        except (RingError, OSError) as error:
            self._open.pop(path).close()
            self._refuse(path, error)
            return False

    def pids(self) -> list[int]:
        """Of the ranks that have a ring, also of those that have just ended."""
        return [ring.pid for ring in self._open.values()]

    def ranks(self, now: float) -> tuple[RankProgress, ...]:
        """The ranks of the newest epoch of each job, in rank order."""
        newest = self._newest()
        rings = [ring for ring in self._open.values() if ring.epoch == newest[ring.job]]
        told = [ring.told(now) for ring in rings if ring.gone_s(now) < FORGET_GONE_S]
        return tuple(sorted(told, key=lambda progress: (progress.job, progress.rank)))

    def _newest(self) -> dict[str, int]:
        newest: dict[str, int] = {}
        for ring in self._open.values():
            newest[ring.job] = max(ring.epoch, newest.get(ring.job, ring.epoch))
        return newest

    def _scan(self) -> None:
        try:
            paths = {path for path in self._rings.iterdir() if _NAME.fullmatch(path.name)}
        except FileNotFoundError:
            paths = set()
        for path in self._open.keys() - paths:
            self._open.pop(path).close()
        self._refused = {path: why for path, why in self._refused.items() if path in paths}
        for path in paths - self._open.keys() - self._refused.keys():
            self._add(path)

    def _add(self, path: Path) -> None:
        try:
            self._open[path] = Ring(path, self._sockets)
        except FileNotFoundError:
            return
        except (RingError, OSError) as error:
            self._refuse(path, error)

    def _refuse(self, path: Path, error: Exception) -> None:
        self._refused[path] = f"ring {path.name}: {error}"
        _log.warning("ring refused", ring=path.name, why=str(error))


class Ring:
    """One rank: its ring, and its process as /proc shows it."""

    def __init__(self, path: Path, sockets: Sockets | None = None) -> None:
        match = _NAME.fullmatch(path.name)
        assert match is not None, path
        self.job, self.epoch = match["job"], int(match["epoch"])
        self.rank = int(match["rank"])
        self._reader = RingReader(path)
        if (self._reader.epoch, self._reader.rank) != (self.epoch, self.rank):
            inside = f".e{self._reader.epoch}.r{self._reader.rank}"
            raise RingError(f"{path.name}: it is {inside} inside")
        self._pid = self._reader.pid
        self._seen = RankProgress(rank=self.rank, epoch=self.epoch, job=self.job)
        self._process = ""
        self._started_ticks: int | None = None
        self._changed_s: float | None = None
        self._recent: tuple[Recent, ...] = ()
        self._pulse, self._pulsed_s = -1, 0.0
        self._gone_s: float | None = None
        self._stopped_s, self._looked_s = 0.0, math.inf
        self._stack, self._stack_s = 0, 0.0
        self._moves = Moves(self._pid, sockets or Sockets())
        self._processors = Processors(self._pid)
        if processes.maps(self._pid, path.name):
            stat = procstat.stat(self._pid)
            self._started_ticks = stat.started_ticks if stat else None

    @property
    def pid(self) -> int:
        return int(self._pid)

    @property
    def attempt(self) -> tuple[str, int]:
        return self.job, self.epoch

    def close(self) -> None:
        self._reader.close()

    def sample(self, now: float) -> bool:
        """Read ring and process state. True where it should be told at once."""
        before, process = self._seen, self._process
        self._seen = self._reader.read()
        pulse = self._reader.pulse()
        if self._changed_s is None or _progress_of(before) != _progress_of(self._seen):
            self._changed_s = now
        if pulse != self._pulse:
            self._pulse, self._pulsed_s = pulse, now
        if (stack := self._reader.stack()) != self._stack:
            self._stack, self._stack_s = stack, now
        self._process = self._state()
        if self._process in ("T", "t"):
            self._stopped_s += max(0.0, now - self._looked_s)
        self._looked_s = now
        if self._process == "gone":
            self._gone_s = self._gone_s if self._gone_s is not None else now
        stands = LOOK_AFTER_S < self._still_s(now) < TELL_UNTIL_S
        self._recent = self._reader.recent() if stands or self._process == "gone" else ()
        ended = self._process != process and self._process in ("T", "t", "Z", "X", "gone")
        return ended or (before.step == 0 < self._seen.step)

    def recall(self) -> bool:
        """Which collectives it was in is told at once, for one of its peers has ended: of what that
        did, or of what this one did. False: it is nothing new.
        """
        self._recent = self._reader.recent()
        return False

    def _still_s(self, now: float) -> float:
        return now - (self._changed_s if self._changed_s is not None else now)

    def gone_s(self, now: float) -> float:
        return 0.0 if self._gone_s is None else now - self._gone_s

    def has_just_gone(self, now: float) -> bool:
        return self._gone_s is not None and self.gone_s(now) < TELL_UNTIL_S

    def told(self, now: float) -> RankProgress:
        cpu_s, memory_bytes, stopped = self._tree()
        gone = self._process == "gone"
        delayed_s, throttled_s = (0.0, 0.0) if gone else self._processors.withheld_s()
        still_s = self._still_s(now)
        if still_s > LOOK_AFTER_S and not gone:
            self._moves.look(now)
        else:
            self._moves.rest()
        return msgspec.structs.replace(
            self._seen,
            job=self.job,
            groups=tuple(_told_of(group, self.rank) for group in self._seen.groups),
            process=self._process,
            cpu_s=cpu_s,
            memory_bytes=memory_bytes,
            stopped_children=stopped,
            still_s=still_s,
            silent_s=now - self._pulsed_s,
            frame_still_s=now - self._stack_s,
            moved_s=self._moves.ago_s(now),
            moved=self._moves.what,
            unseen=self._moves.unseen,
            recent=self._recent,
            delayed_s=delayed_s,
            throttled_s=throttled_s,
            stopped_s=self._stopped_s,
            starts_s=self._starts_s(now),
        )

    def _starts_s(self, now: float) -> dict[str, float]:
        """How long ago each stage of its start was over; nothing once that is long ago."""
        ages = {name: max(0.0, now - at_s) for name, at_s in self._reader.starts_s().items()}
        return ages if ages.get("step", 0.0) < TELL_UNTIL_S else {}

    def _state(self) -> str:
        stat = procstat.stat(self._pid)
        if stat is None or stat.started_ticks != self._started_ticks:
            return "gone"
        return stat.state

    def _tree(self) -> tuple[float, int, tuple[int, ...]]:
        """CPU time of the rank and all below it, its own memory, and which of those below are
        stopped."""
        if self._process == "gone":
            return 0.0, 0, ()
        below = {pid: procstat.stat(pid) for pid in procstat.descendants(self._pid)}
        alive = {pid: stat for pid, stat in below.items() if stat is not None}
        own = procstat.stat(self._pid)
        cpu_s = sum(stat.cpu_s for stat in alive.values()) + (own.cpu_s if own else 0.0)
        stopped = tuple(pid for pid, stat in alive.items() if stat.state in "Tt")
        return cpu_s, own.resident_bytes if own else 0, stopped


def _told_of(group: GroupProgress, rank: int) -> GroupProgress:
    """Members of a large group are told by its first two ranks alone: the list is everybody's."""
    if len(group.ranks) <= LISTED_MEMBERS or rank in group.ranks[:2]:
        return group
    return msgspec.structs.replace(group, ranks=())


def _progress_of(seen: RankProgress) -> tuple[object, ...]:
    """What counts as progress: not the pulse, nor clocks."""
    return seen.step, seen.tokens, seen.phase, seen.groups, seen.peers
