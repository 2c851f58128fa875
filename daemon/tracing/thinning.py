"""Which steps of a rank are kept: all for a window round an incident, else every k-th. Pure.

`k` is a power of two and steps are counted from the job's start, so that ranks that keep different
shares keep the same steps. What it costs is paid from a purse that fills at the budget's rate.
"""

BUDGET_BYTES_S = 135_000 / 3600
BURST_BYTES = 15_000
"""Together at most 150 KB in a rank's first hour, and 135 KB in each later one."""
LARGEST_EVERY = 1 << 20
STEPS_OFTENER = 16
"""Spans of whole steps are kept so much more often than what is in them: they are a few octets."""


class Purse:
    """What one rank may still write of sampled spans, in octets."""

    def __init__(self, now_s: float) -> None:
        self._left, self._at_s = float(BURST_BYTES), now_s
        self.every = 1

    def fill(self, now_s: float) -> None:
        passed_s, self._at_s = max(0.0, now_s - self._at_s), max(now_s, self._at_s)
        self._left = min(BURST_BYTES, self._left + BUDGET_BYTES_S * passed_s)

    def pay(self, octets: float) -> None:
        """Written. Half empty: fewer steps from here on; full again: more."""
        self._left -= octets
        if self._left < BURST_BYTES / 2:
            self.every = min(LARGEST_EVERY, self.every * 2)
        elif self._left > BURST_BYTES * 0.9:
            self.every = max(1, self.every // 2)

    @property
    def empty(self) -> bool:
        return self._left <= 0

    def takes(self, step: int, *, whole_step: bool) -> bool:
        """Whether what is of this step is kept. `whole_step`: it is the span of the step itself."""
        if self.empty:
            return False
        return step % (max(1, self.every // STEPS_OFTENER) if whole_step else self.every) == 0
