"""Whether a rank that makes no progress does something else: it moves bytes, or its children work.

Looked at with each heartbeat while the rank stands still, and never else. Must not conclude.
"""

from pathlib import Path
from typing import NamedTuple

from holdfast.daemon.samplers import processes
from holdfast.daemon.samplers.asks import Asks
from holdfast.daemon.samplers.sockets import Sockets
from holdfast.kit import procstat

MOVING_BYTES_PER_S = 16_384
"""A slow upload is faster, and a thread that only asks a store whether a peer complains is not."""
CHILD_CPU_SHARE = 0.05
"""CPU seconds a second of all children: a worker that waits for its next order uses far less."""


class Bytes(NamedTuple):
    """Of a process, proc(5). `called`: by all its calls to read and write, of which `send` is none.
    `from_disk`: also without a call, as the pages of a library are that is being loaded.
    """

    called: int
    from_disk: int


class Moves:
    """What one process and its children moved between two looks."""

    def __init__(self, pid: int, sockets: Sockets) -> None:
        self._pid, self._sockets, self._asks = pid, sockets, Asks(pid)
        self._looked_s: float | None = None
        self._moved_s: float | None = None
        self._files: dict[int, int] = {}
        self._pages: dict[int, int] = {}
        self._streams: dict[int, int] = {}
        self._cpu: dict[int, float] = {}
        self.what = ""
        """What moved last, in a few words."""
        self.unseen: tuple[str, ...] = ()
        """What this process has no right to look at."""

    def rest(self) -> None:
        """The rank makes progress: the next look is a first one."""
        self._looked_s = self._moved_s = None
        self.what = ""
        self._asks.rest()

    def ago_s(self, now: float) -> float | None:
        """Since something moved; None where nothing has since the rank stood still."""
        return None if self._moved_s is None else now - self._moved_s

    def look(self, now: float) -> None:
        children = procstat.descendants(self._pid)
        bytes_of, streams = self._bytes([self._pid, *children]), self._sockets.bytes(self._pid, now)
        cpu = {pid: stat.cpu_s for pid in children if (stat := procstat.stat(pid)) is not None}
        self.unseen = tuple(
            name for name, seen in (("io", bytes_of), ("sockets", streams)) if seen is None
        )
        files = {pid: each.called for pid, each in (bytes_of or {}).items()}
        pages = {pid: each.from_disk for pid, each in (bytes_of or {}).items()}
        streams, wakes = streams or {}, self._asks.look(now)
        if self._looked_s is not None and now > self._looked_s:
            self._compare(files, pages, streams, cpu, wakes, now, now - self._looked_s)
        self._files, self._pages, self._streams, self._cpu = files, pages, streams, cpu
        self._looked_s = now

    def _compare(
        self,
        files: dict[int, int],
        pages: dict[int, int],
        streams: dict[int, int],
        cpu: dict[int, float],
        wakes: bool,
        now: float,
        took_s: float,
    ) -> None:
        least = MOVING_BYTES_PER_S * took_s
        if (amount := _grown(self._files, files)) >= least:
            self._moved(now, f"reads or writes {_rate(amount, took_s)}")
        elif (amount := _grown(self._pages, pages)) >= least:
            self._moved(now, f"loads {_rate(amount, took_s)} from a disk")
        elif (amount := _grown(self._streams, streams)) >= least:
            self._moved(now, f"its connections carry {_rate(amount, took_s)}")
        elif (spent_s := _grown(self._cpu, cpu)) >= CHILD_CPU_SHARE * took_s:
            self._moved(now, f"its child processes use {spent_s / took_s:.1f} cores")
        elif wakes and _grown(self._streams, streams):
            self._moved(now, "it asks somebody again and again, and bytes come and go")

    def _moved(self, now: float, what: str) -> None:
        self._moved_s, self.what = now, what

    def _bytes(self, pids: list[int]) -> dict[int, Bytes] | None:
        """Of each; None where the rank's own may not be read."""
        found: dict[int, Bytes] = {}
        for pid in pids:
            try:
                found[pid] = _bytes_of(processes.PROC / str(pid) / "io")
            except (FileNotFoundError, ProcessLookupError):
                continue
            except OSError:
                if pid == self._pid:
                    return None
        return found


def _bytes_of(path: Path) -> Bytes:
    fields = dict(line.split(": ") for line in path.read_text().splitlines())
    return Bytes(int(fields["rchar"]) + int(fields["wchar"]), int(fields["read_bytes"]))


def _grown(
    before: dict[int, int] | dict[int, float], now: dict[int, int] | dict[int, float]
) -> float:
    """By how much; what has only come since counts from nothing."""
    return sum(max(0.0, value - before.get(key, 0.0)) for key, value in now.items())


def _rate(amount: float, took_s: float) -> str:
    return f"{amount / took_s / 1e6:.2g} MB/s"
