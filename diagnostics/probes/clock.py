"""Does this node's clock go right, and does anything set it.

Reported: whether the kernel says that it is set, and how far off it may be. Nobody is bad for that:
many nodes do without, and there is none here whose clock is known to be right. Bad is a clock that
goes so wrong that no daemon that sets clocks makes it so: compared with the counter below it.
"""

import ctypes
import select
import time

import msgspec

from holdfast.diagnostics.probes import Measured
from holdfast.protocol.messages import DiagnosticOrder

LOOKED_S = 0.2
FASTEST = 0.1
"""How far its rate may be from the counter's: the kernel lets a tick be set by a tenth at most
(adjtimex(2), EINVAL), and chrony goes up to .083 (`maxslewrate`)."""
TRIES = 100
"""To read both without being interrupted: on a busy machine some are."""
UNSET = 0x40
"""STA_UNSYNC of adjtimex(2)."""


class _Timex(ctypes.Structure):
    """The head of `struct timex`, and room for the rest of it."""

    _fields_ = [
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long),  # microseconds
        ("esterror", ctypes.c_long),
        ("status", ctypes.c_int),
        ("rest", ctypes.c_char * 256),
    ]


class Reading(msgspec.Struct, frozen=True):
    """Of the clock, and of the counter that nobody sets: within so many nanoseconds."""

    clock_ns: int
    counter_ns: int
    within_ns: int


def run(order: DiagnosticOrder, node: str) -> Measured:
    """No figure: what the kernel says, and how much faster the clock goes than its counter. One
    that is wrong is looked at twice: whoever sets it may have it jump, and a fault goes on."""
    found = _looked(order)
    return _looked(order) if found.wrong else found


def _looked(order: DiagnosticOrder) -> Measured:
    first = read()
    select.select([], [], [], min(LOOKED_S, order.time_box_s / 4))
    return judged(first, read(), _said())


def judged(first: Reading, last: Reading, said: str) -> Measured:
    """Wrong only where no late reading explains it."""
    passed_ns = last.counter_ns - first.counter_ns
    ahead_ns = last.clock_ns - first.clock_ns - passed_ns
    unsure_ns = first.within_ns + last.within_ns
    text = f"in {passed_ns / 1e9:.2f} s it went {ahead_ns / 1e3:+.1f} us from its counter"
    if abs(ahead_ns) - unsure_ns > FASTEST * passed_ns:
        return Measured(ok=False, wrong=True, detail=text)
    return Measured(ok=True, detail=f"{said}; {text}")


def read() -> Reading:
    """The one of `TRIES` that was least interrupted."""
    return min((_once() for _ in range(TRIES)), key=lambda each: each.within_ns)


def _once() -> Reading:
    before = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
    clock_ns = time.clock_gettime_ns(time.CLOCK_REALTIME)
    within_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW) - before
    return Reading(clock_ns, before + within_ns // 2, within_ns)


def _said() -> str:
    """By the kernel."""
    timex = _Timex()
    if ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.byref(timex)) < 0:
        return "the kernel does not say whether it is set"
    return words(unset=bool(timex.status & UNSET), off_s=timex.maxerror / 1e6)


def words(*, unset: bool, off_s: float) -> str:
    return "nothing sets it" if unset else f"it is set, and off by {off_s:.3f} s at most"
