"""How fast does this node copy memory: each processor a block of its own, all at once.

Each thread counts its own CPU time, in which waiting for memory is, and waiting for a processor is
not: who else computes here does not show. Every byte of the copies is compared.
"""

import ctypes
import mmap
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import msgspec

from holdfast.diagnostics.probes import Measured, too_little
from holdfast.kit.cgroup import free_bytes
from holdfast.protocol.messages import DiagnosticOrder

BLOCK_BYTES = 32 << 20
"""A copy, with its source, is larger than what most processors have of their last cache each."""
MOST_THREADS = 16
"""A 1 GiB in all: so many processors get what memory gives on most machines."""
SPARE = 2
"""Times what is taken that has to be free: else the kernel might kill somebody for it."""
COPY_S = 0.2
"""On an idle machine some ten copies each; one at least is made, however busy it is."""

_libc = ctypes.CDLL(None)


class Copied(msgspec.Struct, frozen=True):
    """By one thread: the CPU time of its fastest copy, and whether it is the same as its source."""

    took_s: float
    same: bool


def run(order: DiagnosticOrder, node: str) -> Measured:
    """GB of copies a second, of all threads together, while each has its processor."""
    there = sorted(os.sched_getaffinity(0))
    cpus = there[:: -(-len(there) // MOST_THREADS)]
    needed_bytes, free = 2 * SPARE * BLOCK_BYTES * len(cpus), free_bytes()
    if free is not None and free < needed_bytes:
        return too_little("memory", free, needed_bytes)
    return copies(cpus, BLOCK_BYTES, min(COPY_S, order.time_box_s / 10))


def copies(cpus: list[int], block_bytes: int, for_s: float) -> Measured:
    """By a thread on each of these processors; no figure where one cannot begin."""
    all_there, failed = threading.Barrier(len(cpus)), list[Exception]()

    def copy(cpu: int) -> Copied:
        try:
            return _copied(cpu, block_bytes, all_there, for_s)
        except OSError as error:
            failed.append(error)
            all_there.abort()  # the others wait for it
            raise

    with ThreadPoolExecutor(len(cpus)) as pool:
        try:
            found = list(pool.map(copy, cpus))
        except (OSError, RuntimeError) as error:  # no processor or memory; no thread
            all_there.abort()
            return Measured(ok=None, detail=f"cannot be run here: {[*failed, error][0]}")
    if wrong := sum(not each.same for each in found):
        return Measured(ok=False, wrong=True, detail=f"{wrong} of {len(found)} copies are wrong")
    speed = sum(block_bytes / each.took_s for each in found) / 1e9
    return Measured(ok=True, value=speed, detail=f"by {len(found)} processors at once")


def _copied(cpu: int, block_bytes: int, all_there: threading.Barrier, for_s: float) -> Copied:
    os.sched_setaffinity(0, {cpu})  # this thread: its memory is where it was touched first
    with mmap.mmap(-1, block_bytes) as first, mmap.mmap(-1, block_bytes) as second:
        source, target = _address(first), _address(second)
        _fill(source, block_bytes)
        _libc.memset(target, 0, ctypes.c_size_t(block_bytes))
        all_there.wait()
        took_s = _fastest(source, target, block_bytes, for_s)
        same = _libc.memcmp(source, target, ctypes.c_size_t(block_bytes)) == 0
    return Copied(took_s, same)


def _fastest(source: ctypes.c_void_p, target: ctypes.c_void_p, size: int, for_s: float) -> float:
    """CPU time of the fastest copy in that time; one is made at least."""
    end_s, took_s = time.perf_counter() + for_s, list[float]()
    while not took_s or time.perf_counter() < end_s:
        begin_s = time.thread_time()
        _libc.memcpy(target, source, ctypes.c_size_t(size))  # lets other threads have Python's lock
        took_s.append(time.thread_time() - begin_s)
    return min(took_s)


def _fill(at: ctypes.c_void_p, size: int) -> None:
    """With what no other block has."""
    some = os.urandom(1 << 20)
    for begin in range(0, size, len(some)):
        ctypes.memmove(at.value + begin, some, min(len(some), size - begin))  # type: ignore[operator]


def _address(block: mmap.mmap) -> ctypes.c_void_p:
    """The block's: nothing holds on to it, so that it can be closed."""
    return ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(block)))
