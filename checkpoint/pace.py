"""Holding what leaves a node to a rate, so that training has the rest of its network and cores.

Used by the agent's threads: the one that writes to the store, and the one that sends copies to
another node. Both share one pace.
"""

import os
import time
from collections.abc import Callable
from threading import Lock, Thread, local
from typing import TypeVar

from holdfast.kit.clock import Clock
from holdfast.protocol.messages import UploadLimits

T = TypeVar("T")

UNLIMITED = UploadLimits()


class Pace:
    """Of all that one node uploads or copies; any thread may call. `rest` waits so many seconds."""

    def __init__(
        self,
        clock: Clock,
        rest: Callable[[float], object],
        *,
        limits: UploadLimits = UNLIMITED,
        cpu_s: Callable[[], float] = time.thread_time,
    ) -> None:
        self.limits = limits
        """May be changed at any time: what is under way follows, but for `idle`."""
        self._clock = clock
        self._rest = rest
        self._cpu_s = cpu_s
        self._thread = local()  # used_s: its CPU so far, as it was at the last call
        self._lock = Lock()  # of `_free_s`
        self._free_s = 0.0  # from when on more may be taken

    def carry_out(self, write: Callable[..., T]) -> T:
        """Call it with `took`, to be told of what it has written."""

        def paced() -> T:
            self._newly_used_s()
            return write(took=self.took)

        return idly(paced) if self.limits.idle else paced()

    def took(self, size_bytes: int) -> None:
        """Rest as long as so many bytes, and this thread's CPU since its last call, are to last,
        after what the other threads took.
        """
        lasts_s = self._lasts_s(size_bytes, self._newly_used_s())
        with self._lock:
            now = self._clock.monotonic_s()
            until = self._free_s = max(now, self._free_s) + lasts_s
        if lasts_s:
            self._rest(until - now)

    def _newly_used_s(self) -> float:
        now = self._cpu_s()
        before, self._thread.used_s = getattr(self._thread, "used_s", now), now
        return now - before

    def _lasts_s(self, size_bytes: int, used_s: float) -> float:
        limits = self.limits
        of_bytes = size_bytes / (limits.mb_per_s * 1e6) if limits.mb_per_s else 0.0
        return max(of_bytes, used_s / limits.cpus if limits.cpus else 0.0)


def idly(call: Callable[[], T]) -> T:
    """Its result, or its error, from a thread that has only CPU, and disk, nobody else wants.

    (Linux gives such a thread the idle class of its disks, too: ioprio_set(2).) A thread of its
    own, for without privileges there is no way back.
    """
    found: list[T] = []
    failed: list[BaseException] = []

    def run() -> None:
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        try:
            found.append(call())
        except BaseException as error:  # noqa: BLE001 - raised in the thread that asked
            failed.append(error)

    thread = Thread(target=run, name="idle", daemon=True)
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return found[0]
