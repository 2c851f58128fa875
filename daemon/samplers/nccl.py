"""NCCL's own words on a job that stands still: asked of its RAS on the node of rank 0.

Called by the daemon's loop once a heartbeat. Nothing is asked while steps go on, nor of a job whose
collectives are all gloo's. One question at a time, in a thread of its own that a deadline ends; the
heartbeat goes meanwhile. Must not judge.
"""

import threading
from collections.abc import Mapping
from typing import Protocol

from holdfast.daemon.samplers import processes, ras_answer
from holdfast.daemon.samplers.ras import Unreadable
from holdfast.kit.logs import LazyLogger
from holdfast.protocol.messages import Nccl, RankProgress

STILL_S = 2.0
"""Rank 0 stands still for so long: RAS then has some seconds before anything is done (5 s)."""
ASKED_EVERY_S = 5.0
UNCOUNTED = frozenset({"done", "collectives"})
"""A ring lacks one of these where a group is not gloo's, or the hooks could not be put on."""
LIBRARY = "libnccl"
"""Among the files that a process has mapped. NCCL that was linked into another one is not seen."""

_log = LazyLogger()


class Source(Protocol):
    """What tells of the NCCL of a job, from one of its nodes."""

    def ask(self) -> bytes | None:
        """RAS's answer, as JSON; None where there is none to ask. Raises `Unreadable`."""


class NcclWords:
    """The newest answer while the job stands, and why there is none."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._asking: threading.Thread | None = None
        self._asked_s = -ASKED_EVERY_S
        self._job = ("", -1)  # the job and epoch that stand still, as far as is known
        self._answer: Nccl | None = None
        self._why = ""

    def sample(self, ranks: tuple[RankProgress, ...], now: float) -> Nccl | None:
        """What was answered last; None while rank 0 is elsewhere, or goes on."""
        first = next((seen for seen in ranks if seen.rank == 0 and _stands(seen)), None)
        if first is None or (first.job, first.epoch) != self._job:
            self._job = ("", -1) if first is None else (first.job, first.epoch)
            self._answer, self._why = None, ""
        before = self._answer  # no heartbeat waits, however soon it is answered
        if first is not None and now - self._asked_s >= ASKED_EVERY_S and not self._is_asking():
            self._asked_s = now
            pids = {seen.pid: seen.rank for seen in ranks if seen.job == first.job and seen.pid}
            self._asking = threading.Thread(target=self._ask, args=(self._job, pids), daemon=True)
            self._asking.start()
        return before

    @property
    def unreadable(self) -> tuple[str, ...]:
        return (f"NCCL: {self._why}",) if self._why else ()

    def _is_asking(self) -> bool:
        return self._asking is not None and self._asking.is_alive()

    def _ask(self, job: tuple[str, int], pids: Mapping[int, int]) -> None:
        answer, why = None, ""
        try:
            answer = self._answered(job, pids)
        except Unreadable as error:
            why = str(error)
        except Exception as error:  # noqa: BLE001 in our own thread, which nobody else guards
            why = f"{type(error).__name__}, a defect of Holdfast's daemon"
        if why and why != self._why:
            _log.warning("unreadable", sampler="nccl", why=why)
        if job == self._job:  # else it went on meanwhile, and this is of no use
            self._answer, self._why = answer, why

    def _answered(self, job: tuple[str, int], pids: Mapping[int, int]) -> Nccl | None:
        if not any(processes.maps(pid, LIBRARY) for pid in pids):
            return None
        data = self._source.ask()
        if data is None:
            return None
        return ras_answer.told(ras_answer.read(data), *job, pids)


def _stands(seen: RankProgress) -> bool:
    stands = seen.still_s >= STILL_S and seen.process != "gone"
    return stands and not UNCOUNTED.isdisjoint(seen.partial)
