"""Where the time of the thread that trains goes, from step to step: waits for peers, pauses, CPU.

Called by the recorder, inside a rank. What is neither a wait nor a pause is the rank's own part of
a step: of ranks that go in step, the one that holds the others up has the longest. Must not wait.
"""

import threading
import time


class StepClock:
    """Sums since the start, in nanoseconds. Only the thread that made this is looked at."""

    def __init__(self) -> None:
        self._thread = threading.get_ident()
        self._wait_began_ns: int | None = None
        self._waits = 0
        self._pause_began_ns: int | None = None
        self._pauses, self._until_step = 0, False
        self._ran_before_ns = self._ran_paused_ns = 0
        self._enqueued_ns: int | None = None  # and nothing has said since that it was waited for
        self._waited_ns = self._paused_ns = 0
        self.at_step_ns = (0, 0, 0, 0)
        """When the last step ended, on a clock of this process, and until then: CPU time of the
        thread and its waits for peers, both but for those in pauses, and its pauses."""

    @property
    def waited_ns(self) -> int:
        """Waits for peers until now, one that is not over with it; any thread may ask."""
        began_ns = self._wait_began_ns
        running_ns = 0 if began_ns is None or self._pauses else time.perf_counter_ns() - began_ns
        return self._waited_ns + running_ns

    @property
    def supposed_ns(self) -> int:
        """The same, with what would be a wait if nothing else came of the collective that was
        enqueued last: of one that is under way nobody knows better."""
        enqueued_ns = self._enqueued_ns
        since_ns = 0 if enqueued_ns is None else time.perf_counter_ns() - enqueued_ns
        return self.waited_ns + since_ns

    def waits(self, waiting: bool) -> None:
        """The script enters or leaves a wait for its peers; one wait may be in another."""
        if threading.get_ident() != self._thread:
            return
        self._waits += 1 if waiting else -1
        if self._waits != waiting:  # the inner one's
            return
        now_ns = time.perf_counter_ns()
        if not waiting:
            self._waited_since(self._wait_began_ns, now_ns)
        self._wait_began_ns = now_ns if waiting else None
        self._enqueued_ns = None

    def enqueued(self) -> None:
        """A collective was; where no wait is seen, what comes next waits for it (DDP, in C++)."""
        if threading.get_ident() == self._thread:
            self._enqueued_ns = time.perf_counter_ns()

    def optimizes(self) -> None:
        """An optimizer begins its step: the collectives before it are done."""
        if threading.get_ident() == self._thread:
            self._waited_since(self._enqueued_ns, time.perf_counter_ns())
            self._enqueued_ns = None

    def pauses(self, pausing: bool) -> None:
        """The script begins or ends what is no step; one pause may be in another."""
        if threading.get_ident() != self._thread:
            return
        now_ns, ran_ns = time.perf_counter_ns(), time.thread_time_ns()
        self._pauses += 1 if pausing else -1
        if pausing and self._pause_began_ns is None:
            self._pause_began_ns, self._ran_before_ns = now_ns, ran_ns
        elif not self._pauses and self._pause_began_ns is not None:
            self._paused_ns += now_ns - self._pause_began_ns
            self._ran_paused_ns += ran_ns - self._ran_before_ns
            self._pause_began_ns = self._enqueued_ns = None

    def pauses_until_step(self) -> None:
        """The same, until the next step."""
        if threading.get_ident() == self._thread and not self._until_step:
            self._until_step = True
            self.pauses(True)

    def stepped(self) -> None:
        """A step is complete."""
        if threading.get_ident() != self._thread:
            return
        if self._until_step:
            self._until_step = False
            self.pauses(False)
        now_ns, ran_ns = time.perf_counter_ns(), time.thread_time_ns() - self._ran_paused_ns
        self.at_step_ns = now_ns, ran_ns, self._waited_ns, self._paused_ns

    def _waited_since(self, began_ns: int | None, now_ns: int) -> None:
        if began_ns is not None and self._pause_began_ns is None:
            self._waited_ns += now_ns - began_ns
