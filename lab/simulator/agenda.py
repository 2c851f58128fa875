"""Virtual time: what happens next, in order. The same calls give the same order, always."""

import heapq
from collections.abc import Callable


class Agenda:
    """A queue of calls by virtual second; equal times keep the order in which they were added."""

    def __init__(self) -> None:
        self.now = 0.0
        self._count = 0
        self._queue: list[tuple[float, int, Callable[[], None]]] = []

    def after(self, delay_s: float, call: Callable[[], None]) -> None:
        """Have `call` made `delay_s` from now."""
        self._count += 1
        heapq.heappush(self._queue, (self.now + delay_s, self._count, call))

    def next_s(self) -> float | None:
        """When the next call is due; None where there is none."""
        return self._queue[0][0] if self._queue else None

    def step(self) -> None:
        """Go to the next call and make it."""
        self.now, _, call = heapq.heappop(self._queue)
        call()
