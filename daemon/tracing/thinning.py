"""Which steps of a rank are kept: all for a window round an incident, else every k-th. Pure.

`k` is a power of two and steps are counted from the job's start, so that ranks that keep different
shares keep the same steps. What it costs is paid from a purse that fills at the budget's rate.
"""

BUDGET_BYTES_S = 135_000 / 3600
BURST_BYTES = 15_000
"""Together at most 150 KB in a rank's first hour, and 135 KB in each later one."""
GUESS_BYTES = 8.0
"""Of a span, until it is written: by then a fast job has taken many more."""
FALLEN, FULL = 0.8, 0.9
"""Fewer steps are kept each time a purse that is half empty has come down to this share of the most
it held since; more once it is as full as this, each PATIENCE_S."""
PATIENCE_S = 30.0
LARGEST_EVERY = 1 << 20
STEPS_OFTENER = 16
"""Spans of whole steps are kept so much more often than what is in them: they are a few octets."""


class Purse:
    """What one rank may still write of sampled spans, in octets."""

    def __init__(self, now_s: float) -> None:
        self._left, self._at_s = float(BURST_BYTES), now_s
        self._most, self._changed_s = self._left, now_s
        self.every = 1

    def fill(self, now_s: float) -> None:
        """Time has passed. Full again: more steps from here on, also where none was kept."""
        passed_s, self._at_s = max(0.0, now_s - self._at_s), max(now_s, self._at_s)
        self._left = min(BURST_BYTES, self._left + BUDGET_BYTES_S * passed_s)
        self._most = max(self._most, self._left)
        if self._left > BURST_BYTES * FULL and self._at_s - self._changed_s >= PATIENCE_S:
            self._change(max(1, self.every // 2))

    def pay(self, octets: float, spans: int) -> None:
        """Written: so many octets it was, of spans that were taken."""
        self._left += spans * GUESS_BYTES - octets

    @property
    def empty(self) -> bool:
        return self._left <= 0

    def takes(self, step: int, *, whole_step: bool) -> bool:
        """Whether what is of this step is kept. `whole_step`: it is the span of the step itself."""
        if self.empty:
            return False
        if step % (max(1, self.every // STEPS_OFTENER) if whole_step else self.every):
            return False
        self._left -= GUESS_BYTES
        if self._left < min(BURST_BYTES / 2, self._most * FALLEN):
            self._change(min(LARGEST_EVERY, self.every * 2))
        return True

    def _change(self, every: int) -> None:
        self.every, self._most, self._changed_s = every, self._left, self._at_s
