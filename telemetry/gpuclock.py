"""Where a GPU's time goes, from step to step: waits for peers and pauses, as the GPU ran them.

Called by the recorder, inside a rank that has CUDA. A script enqueues ahead of its GPU, so the
CPU's clock shows none of the waits inside. So *marks* (CUDA events) are enqueued with them, on the
stream that trains, and read at the end of a later step, once the GPU is past them: nothing waits
for it, and what is known is some steps old. Must not wait.
"""

import threading
import time
from collections import deque
from collections.abc import Callable
from enum import Enum, auto
from typing import Any, NamedTuple, Protocol

MOST = 4096
"""Entries that may wait to be read: of some hundred steps, or of one with many collectives. A GPU
that is further behind stands still, or has more to do than there is to be known of it."""
UNDER_WAY = 256
"""Collectives of which it is kept where they began, until somebody waits for them."""
DRIFT = 2e-5
"""What two clocks may come apart, of the time that passes: twenty times what quartz does, as GPUs
are not specified."""


class Marks(Protocol):
    """The stream that trains, and its marks. What it raises ends the clock."""

    def here(self) -> bool:
        """Whether the calling thread enqueues on that stream, and what it does there is done once:
        a graph that is captured is not."""

    def follow(self) -> None:
        """From now on that stream is the calling thread's."""

    def mark(self) -> Any:
        """One at the end of what has been enqueued."""

    def is_past(self, mark: Any) -> bool: ...

    def between_ns(self, first: Any, second: Any) -> int:
        """Less than 0 where the second comes first."""

    def free(self, mark: Any) -> None:
        """It is not needed any more."""


class Mark(NamedTuple):
    """A point in the work of the stream, and when it was enqueued."""

    point: Any
    at_ns: int


Told = Callable[[int, int, int], None]
"""Is called with when something began, on the machine's monotonic clock, how long it took, and how
much of that the GPU waited for peers."""


class Collective(NamedTuple):
    """One that was enqueued, and that nobody has waited for. `key`: of its work, where known."""

    begin: Mark
    told: Told | None
    key: int | None = None


class What(Enum):
    SPAN, WAIT, PAUSE, STEP = auto(), auto(), auto(), auto()


class Entry(NamedTuple):
    """From one mark to another; of a step its end alone, its number, and the CPU time of the thread
    that trains until then. `of`: the collective that was waited for."""

    what: What
    begin: Mark | None
    end: Mark
    told: Told | None = None
    of: Collective | None = None
    step: int = 0
    ran_ns: int = 0


class GpuClock:
    """Sums since its first step, in nanoseconds."""

    def __init__(self, marks: Marks, now_ns: Callable[[], int] = time.perf_counter_ns) -> None:
        self._marks, self._host_ns = marks, now_ns
        self._entries: deque[Entry] = deque()
        self._under_way: deque[Collective] = deque()
        self._enqueued: Mark | None = None  # and nobody was seen to wait since
        self._paused: Mark | None = None
        self._pauses = 0
        self._trains = threading.get_ident()
        self._waiting: set[int] = set()  # threads
        self._steps = 0
        self._last: Mark | None = None
        self._now_ns, self._waited_ns, self._paused_ns = now_ns(), 0, 0
        self._step_waited_ns = 0
        self._behind_ns, self._behind_at_ns = 0, self._now_ns
        self.step = 0
        """The newest that the GPU is known to have done; 0: none yet."""
        self.at_step_ns = (0, 0, 0, 0)
        """As of `StepClock`, at the end of that step."""

    # ------------------------------------------------------------ what is enqueued

    def waits(self) -> Mark | None:
        """What is enqueued from here until `waited` waits for peers; one wait may be in another."""
        thread = threading.get_ident()
        if thread in self._waiting or not self._is_open():
            return None
        self._waiting.add(thread)
        return self._mark()

    def waited(self, begin: Mark | None, key: int | None = None) -> None:
        """What `waits` gave is over. `key`: of the work that was waited for."""
        if begin is not None:
            self._waiting.discard(threading.get_ident())
            self._enqueued = None
            self._put(What.WAIT, begin, of=self._waited_for(key))

    def enqueued(self, told: Told | None = None) -> bool:
        """A collective was; where no wait is seen, what comes next waits for it (DDP, in C++).
        Whether it is `told` later."""
        if not self._is_open():
            return False
        self._enqueued = begin = self._mark()
        if len(self._under_way) == UNDER_WAY:
            self._forget(self._under_way.popleft())
        self._under_way.append(Collective(begin, told))
        return True

    def made(self, key: int | None) -> None:
        """The work of the collective that was enqueued last."""
        newest = self._under_way[-1].begin if self._under_way else None
        if newest is not None and newest is self._enqueued and self.is_of_training():
            self._under_way[-1] = self._under_way[-1]._replace(key=key)

    def optimizes(self) -> None:
        """An optimizer begins its step: the collectives before it are done."""
        if not self._marks.here():
            return
        if self._enqueued is not None and self._under_way:
            newest, self._enqueued = self._under_way.pop(), None
            self._put(What.WAIT, newest.begin, of=newest)
        while self._under_way:
            self._forget(self._under_way.popleft())

    def begins(self) -> Mark | None:
        """Of something to be told, until `ends`."""
        return self._mark() if len(self._entries) < MOST and self._marks.here() else None

    def ends(self, begin: Mark | None, told: Told) -> bool:
        """Whether it is told later."""
        if begin is None or not self._marks.here():
            return False
        self._put(What.SPAN, begin, told)
        return True

    def pauses(self, pausing: bool) -> None:
        """The script begins or ends what is no step; one pause may be in another; the end of
        one that began before this clock is none. Beside the thread that trains there are none."""
        if not (pausing or self._pauses) or not self.is_of_training():
            return
        self._pauses += 1 if pausing else -1
        if pausing and self._pauses == 1 and self._marks.here():
            self._enqueued, self._paused = None, self._mark()
        elif not self._pauses and self._paused is not None:
            begin, self._paused = self._paused, None
            self._put(What.PAUSE, begin)

    def stepped(self, step: int, ran_ns: int, told: Told | None = None) -> bool:
        """A step is enqueued as a whole; `ran_ns`: as of `StepClock`. Whether it is `told` later:
        nobody knows when the first one began."""
        self._trains = threading.get_ident()
        if not self._marks.here():
            self._marks.follow()
        if not self._marks.here() or len(self._entries) >= MOST:  # it is captured, or stands still
            return False
        self._read()
        self._put(What.STEP, None, told, step=step, ran_ns=ran_ns)
        self._steps += 1
        return self._steps > 1

    def is_of_training(self) -> bool:
        """Whether the calling thread is the main one, the one that trains, or one of autograd's,
        which Python has not started. Another, that saves say, has a stream of the same name, and
        its waits are not the GPU's."""
        if threading.get_ident() in (self._trains, threading.main_thread().ident):
            return True
        return isinstance(threading.current_thread(), threading._DummyThread)

    def _is_open(self) -> bool:
        if self._pauses or len(self._entries) >= MOST:
            return False
        return self.is_of_training() and self._marks.here()

    def _mark(self) -> Mark:
        return Mark(self._marks.mark(), self._host_ns())

    def _put(self, what: What, begin: Mark | None, told: Told | None = None, **more: Any) -> None:
        self._entries.append(Entry(what, begin, self._mark(), told, **more))

    def _waited_for(self, key: int | None) -> Collective | None:
        """That of `key`, or the first that nobody has waited for."""
        if not self._under_way:
            return None
        known = (at for at, each in enumerate(self._under_way) if each.key == key is not None)
        at = next(known, 0)
        found = self._under_way[at]
        del self._under_way[at]
        return found

    def _forget(self, one: Collective) -> None:
        """Nobody will know when it ended: it was enqueued, and that is all."""
        self._marks.free(one.begin.point)
        if one.told is not None:
            one.told(one.begin.at_ns, 0, 0)

    # ------------------------------------------------------------ what the GPU is past

    def _read(self) -> None:
        while self._entries and self._marks.is_past(self._entries[0].end.point):
            entry = self._entries.popleft()
            if entry.what is What.STEP:
                self._stepped(entry)
            elif entry.begin is not None:
                self._passed(entry, entry.begin)

    def _passed(self, entry: Entry, begin: Mark) -> None:
        took_ns = max(0, self._marks.between_ns(begin.point, entry.end.point))
        if self._last is not None:  # else it was before the first step
            self._waited_ns += took_ns * (entry.what is What.WAIT)
            self._paused_ns += took_ns * (entry.what is What.PAUSE)
            self._tell(entry, begin, took_ns)
        self._marks.free(begin.point)
        self._marks.free(entry.end.point)
        if entry.of is not None and entry.of.begin is not begin:
            self._marks.free(entry.of.begin.point)

    def _tell(self, entry: Entry, begin: Mark, took_ns: int) -> None:
        told = entry.told if entry.of is None else entry.of.told
        if told is None:
            return
        first = begin if entry.of is None else entry.of.begin
        whole_ns = max(took_ns, self._marks.between_ns(first.point, entry.end.point))
        self._seen_at_ns(first)  # where it had nothing else to do, its time is known best
        ended_ns = self._seen_at_ns(entry.end)
        told(ended_ns - whole_ns, whole_ns, took_ns if entry.what is What.WAIT else 0)

    def _stepped(self, entry: Entry) -> None:
        if self._last is not None:
            took_ns = max(0, self._marks.between_ns(self._last.point, entry.end.point))
            ended_ns = self._seen_at_ns(entry.end)
            self._now_ns += took_ns
            self._marks.free(self._last.point)
            if entry.told is not None:
                waited_ns = self._waited_ns - self._step_waited_ns
                entry.told(ended_ns - took_ns, took_ns, min(waited_ns, took_ns))
        else:
            self._now_ns = entry.end.at_ns
        self._last, self._step_waited_ns = entry.end, self._waited_ns
        self.step = entry.step
        self.at_step_ns = self._now_ns, entry.ran_ns, self._waited_ns, self._paused_ns

    def _seen_at_ns(self, mark: Mark) -> int:
        """When the GPU was there, on the machine's clock. It was there no sooner than that was
        enqueued; and now and then it has nothing else to do, and is there at once."""
        if self._last is None:
            return mark.at_ns
        on_gpu_ns = self._now_ns + self._marks.between_ns(self._last.point, mark.point)
        drifted_ns = self._behind_ns - int(DRIFT * (on_gpu_ns - self._behind_at_ns))
        self._behind_ns = max(drifted_ns, mark.at_ns - on_gpu_ns)
        self._behind_at_ns = on_gpu_ns
        return on_gpu_ns + self._behind_ns
