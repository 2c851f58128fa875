"""In which system call the rank's main thread stands, and where it sleeps, until when.

Called by the recorder's pulse, in a thread of the rank: it may look at its own process without any
right, where the kernel shows that at all. Only a thread that has stood at one line for a while is
looked at. An end that is in memory is read through /proc, which answers a wrong address with an
error; what cannot be read is no sleep. Must not raise.
"""

import os
import threading
from struct import Struct
from typing import Final

from holdfast.telemetry import schema
from holdfast.telemetry.ring import RingWriter

AFTER_S: Final = 2.0
"""At one line for so long before it is looked at: no step pays for it."""
AGAIN_S: Final = 1.0
"""A look takes two openings of files in /proc, about .3 ms."""

LATE_S: Final = 2.0
"""A thread may wake so much later than its sleep ends: others have the processor, or the GIL."""
LEAST_S: Final = 0.001  # as the ring counts

_MONOTONIC, _TIMER_ABSTIME = 1, 1
_TIMESPEC = Struct("=qq")
_CHILD, _BYTES, _THREAD, _SLEEP = range(1, 5)  # of schema.CALLS
_X86_64 = {
    **dict.fromkeys((61, 247), _CHILD),  # wait4, waitid
    # read, poll, select, recvfrom, recvmsg, epoll_wait, pselect6, ppoll, epoll_pwait
    **dict.fromkeys((0, 7, 23, 45, 47, 232, 270, 271, 281), _BYTES),
    202: _THREAD,  # futex
    230: _SLEEP,  # clock_nanosleep
}
_AARCH64 = {
    **dict.fromkeys((260, 95), _CHILD),  # wait4, waitid
    # read, pselect6, ppoll, recvfrom, recvmsg, epoll_pwait
    **dict.fromkeys((63, 72, 73, 207, 212, 22), _BYTES),
    98: _THREAD,  # futex
    115: _SLEEP,  # clock_nanosleep
}
_NUMBERS = {"x86_64": _X86_64, "aarch64": _AARCH64}


class Calls:
    """Of the thread that made this, from another thread."""

    def __init__(self, ring: RingWriter, machine: str | None = None) -> None:
        self._ring = ring
        self._path = f"/proc/self/task/{threading.get_native_id()}/syscall"
        self._numbers = _NUMBERS.get(machine or os.uname().machine, {})
        self._due_s = 0.0
        self._awake_s = 0.0  # when it was last not in the sleep that it is in
        self._until_s: float | None = None

    def sample(self, since_s: float, now_s: float) -> None:
        """Put it into the ring, for a thread that has stood at one line since `since_s`."""
        if not self._numbers:
            return
        if now_s - since_s < AFTER_S:
            self._awake_s, self._until_s, self._due_s = since_s, None, since_s + AFTER_S
            self._ring.word(schema.CALL, 0)
        elif now_s >= self._due_s:
            self._look(now_s)
        self._store(now_s)

    def unknown(self, now_s: float) -> None:
        """Nobody knows where the thread stands: what was said of it holds no longer."""
        self._awake_s, self._until_s = now_s, None
        for word in (schema.CALL, schema.SLEEP_MS, schema.SLEEP_LEFT_MS):
            self._ring.word(word, 0)

    def _look(self, now_s: float) -> None:
        before_s = self._until_s
        call, self._until_s = self._read()
        if self._until_s is None and before_s is not None and now_s < before_s + LATE_S:
            self._until_s = before_s  # it is at that line still, and about to wake
        if self._until_s is None:
            self._awake_s = now_s
        elif before_s is not None and self._until_s != before_s:
            self._awake_s = min(before_s, now_s)
        self._ring.word(schema.CALL, call)
        # The end of a long sleep is looked at as it comes: another may begin at once.
        long = self._until_s is not None and self._until_s - self._awake_s > AGAIN_S
        again_s = now_s + AGAIN_S
        comes = long and self._until_s is not None and self._until_s > now_s
        self._due_s = min(self._until_s, again_s) if comes and self._until_s else again_s

    def _store(self, now_s: float) -> None:
        whole_s = left_s = 0.0
        if self._until_s is not None:
            whole_s = max(0.0, self._until_s - self._awake_s)
            least_s = LEAST_S if now_s < self._until_s + LATE_S else 0.0
            left_s = max(least_s, self._until_s - now_s)
        self._ring.word(schema.SLEEP_MS, int(1_000 * whole_s))
        self._ring.word(schema.SLEEP_LEFT_MS, int(1_000 * left_s))

    def _read(self) -> tuple[int, float | None]:
        """Of schema.CALLS, and the end of a sleep on the monotonic clock."""
        try:
            said = self._said()
            number, clock, flags, request = (int(word, 0) for word in said.split()[:4])
            call = self._numbers.get(number, 0)
            if (call, clock, flags) != (_SLEEP, _MONOTONIC, _TIMER_ABSTIME):
                return call, None
            seconds, nanos = _TIMESPEC.unpack(_memory(request, _TIMESPEC.size))
            whole = said == self._said() and seconds >= 0 and 0 <= nanos < 1_000_000_000
            return call, seconds + nanos / 1e9 if whole else None
        except (OSError, ValueError, OverflowError):  # not in a call, or nothing is shown here
            return 0, None

    def _said(self) -> str:
        with open(self._path, encoding="ascii") as file:
            return file.read()


def _memory(address: int, size: int) -> bytes:
    """Of this process. Raises `OSError` where there is none at `address`."""
    memory = os.open("/proc/self/mem", os.O_RDONLY | os.O_CLOEXEC)
    try:
        data = os.pread(memory, size, address)
    finally:
        os.close(memory)
    if len(data) != size:
        raise OSError(f"{len(data)} of {size} bytes")
    return data
