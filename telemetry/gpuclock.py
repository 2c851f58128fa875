"""Where a GPU's time goes, from step to step: waits for peers and pauses, as the GPU ran them.

Called by the recorder, inside a rank that has CUDA. A script enqueues ahead of its GPU, so the
CPU's clock shows none of the waits inside. So *marks* (CUDA events) are enqueued with them, on the
stream that trains, and read at the end of a later step, once the GPU is past them: nothing waits
for it, and what is known is some steps old. Must not wait.
"""

import threading
from collections import deque
from enum import Enum, auto
from typing import Any, NamedTuple, Protocol

Mark = Any
"""A point in the work of a stream."""

MOST = 4096
"""Entries that may wait to be read: of some hundred steps, or of one with many collectives. A GPU
that is further behind stands still, or has more to do than there is to be known of it."""


class Marks(Protocol):
    """The stream that trains, and its marks. What it raises ends the clock."""

    def here(self) -> bool:
        """Whether the calling thread enqueues on that stream, and what it does there is done once:
        a graph that is captured is not."""

    def follow(self) -> None:
        """From now on that stream is the calling thread's."""

    def mark(self) -> Mark:
        """One at the end of what has been enqueued."""

    def is_past(self, mark: Mark) -> bool: ...

    def between_ns(self, first: Mark, second: Mark) -> int: ...

    def free(self, mark: Mark) -> None:
        """It is not needed any more."""


class What(Enum):
    WAIT, PAUSE, STEP = auto(), auto(), auto()


class Entry(NamedTuple):
    """From one mark to another; of a step its end alone, its number, and the CPU time of the thread
    that trains until then."""

    what: What
    begin: Mark
    end: Mark
    step: int = 0
    ran_ns: int = 0


class GpuClock:
    """Sums since its first step, in nanoseconds."""

    def __init__(self, marks: Marks, began_ns: int) -> None:
        """`began_ns`: what its clock shows at the end of the first step."""
        self._marks = marks
        self._entries: deque[Entry] = deque()
        self._enqueued: Mark | None = None
        self._paused: Mark | None = None
        self._pauses = 0
        self._waiting: set[int] = set()  # threads
        self._last: Mark | None = None
        self._now_ns, self._waited_ns, self._paused_ns = began_ns, 0, 0
        self.step = 0
        """The newest that the GPU is known to have done; 0: none yet."""
        self.at_step_ns = (0, 0, 0, 0)
        """As of `StepClock`, at the end of that step."""

    def waits(self) -> Mark | None:
        """What is enqueued from here until `waited` waits for peers; one wait may be in another."""
        thread = threading.get_ident()
        if thread in self._waiting or not self._is_open():
            return None
        self._waiting.add(thread)
        return self._marks.mark()

    def waited(self, begin: Mark | None) -> None:
        """What `waits` gave is over."""
        if begin is not None:
            self._waiting.discard(threading.get_ident())
            self._forget_enqueued()
            self._put(What.WAIT, begin)

    def enqueued(self) -> None:
        """A collective was; where no wait is seen, what comes next waits for it (DDP, in C++)."""
        if self._is_open():
            self._forget_enqueued()
            self._enqueued = self._marks.mark()

    def optimizes(self) -> None:
        """An optimizer begins its step: the collectives before it are done."""
        if self._enqueued is not None and self._marks.here():
            begin, self._enqueued = self._enqueued, None
            self._put(What.WAIT, begin)

    def pauses(self, pausing: bool) -> None:
        """The script begins or ends what is no step; one pause may be in another."""
        self._pauses += 1 if pausing else -1
        if pausing and self._pauses == 1 and self._marks.here():
            self._forget_enqueued()
            self._paused = self._marks.mark()
        elif not self._pauses and self._paused is not None:
            begin, self._paused = self._paused, None
            self._put(What.PAUSE, begin)

    def stepped(self, step: int, ran_ns: int) -> None:
        """A step is enqueued as a whole; `ran_ns`: as of `StepClock`."""
        if not self._marks.here():
            self._marks.follow()
        if self._marks.here():  # else it is captured
            self._read()
            self._put(What.STEP, None, step, ran_ns)

    def _is_open(self) -> bool:
        return not self._pauses and len(self._entries) < MOST and self._marks.here()

    def _forget_enqueued(self) -> None:
        if self._enqueued is not None:
            self._marks.free(self._enqueued)
            self._enqueued = None

    def _put(self, what: What, begin: Mark, step: int = 0, ran_ns: int = 0) -> None:
        if what is not What.STEP or len(self._entries) < MOST:
            self._entries.append(Entry(what, begin, self._marks.mark(), step, ran_ns))

    def _read(self) -> None:
        """Add up what the GPU is past."""
        while self._entries and self._marks.is_past(self._entries[0].end):
            entry = self._entries.popleft()
            if entry.what is What.STEP:
                self._ended(entry)
                continue
            took_ns = self._marks.between_ns(entry.begin, entry.end)
            self._marks.free(entry.begin)
            self._marks.free(entry.end)
            if self._last is None:
                continue  # before the first step
            if entry.what is What.WAIT:
                self._waited_ns += took_ns
            else:
                self._paused_ns += took_ns

    def _ended(self, entry: Entry) -> None:
        if self._last is not None:
            self._now_ns += self._marks.between_ns(self._last, entry.end)
            self._marks.free(self._last)
        self._last = entry.end
        self.step = entry.step
        self.at_step_ns = self._now_ns, entry.ran_ns, self._waited_ns, self._paused_ns
