"""Holding an upload to a rate, so that training has the rest of a node's network and cores.

Used by the agent's store thread and the thread that writes a shard for it.
"""

import os
import time
from collections.abc import Callable
from threading import Thread
from typing import TypeVar

from holdfast.kit.clock import Clock
from holdfast.protocol.messages import UploadLimits

T = TypeVar("T")


class Pace:
    """Of one node's uploads, in one thread at a time. `rest` waits so many seconds."""

    def __init__(
        self,
        limits: UploadLimits,
        clock: Clock,
        rest: Callable[[float], object],
        *,
        cpu_s: Callable[[], float] = time.thread_time,
    ) -> None:
        self._limits = limits
        self._clock = clock
        self._rest = rest
        self._cpu_s = cpu_s
        self._used_s = cpu_s()
        self._free_s = 0.0  # from when on more may be taken

    def carry_out(self, write: Callable[..., T]) -> T:
        """Call it with `took`, to be told of what it has written."""

        def paced() -> T:
            self._used_s = self._cpu_s()  # of this thread
            return write(took=self.took)

        return idly(paced) if self._limits.idle else paced()

    def took(self, size_bytes: int) -> None:
        """Rest as long as so many bytes, and the CPU since the last call, are to last."""
        used_s, self._used_s = self._cpu_s() - self._used_s, self._cpu_s()
        lasts_s = 0.0
        if self._limits.mb_per_s:
            lasts_s = size_bytes / (self._limits.mb_per_s * 1e6)
        if self._limits.cpus:
            lasts_s = max(lasts_s, used_s / self._limits.cpus)
        now = self._clock.monotonic_s()
        self._free_s = max(now, self._free_s) + lasts_s
        if self._free_s > now:
            self._rest(self._free_s - now)


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
