"""How far a snapshot is that was ordered into the store. Used by the agent's store side."""

from holdfast.checkpoint.timed_store import Answers
from holdfast.kit.clock import Clock

TELL_EVERY_S = 5.0
"""So often it is told how a snapshot that was ordered gets on."""


class Progress:
    """How far a snapshot that was ordered is, as it is told: a report at each piece were many."""

    def __init__(self, clock: Clock, answers: Answers) -> None:
        self._clock = clock
        self._answers = answers
        self._before_bytes: int | None = None  # taken before it was ordered; None: nothing was
        self._told_s = 0.0
        self._told_bytes = 0

    def begin(self) -> None:
        """Count from now on: it was ordered."""
        self._before_bytes, self._told_bytes = self._answers.taken_bytes, 0
        self._told_s = self._clock.monotonic_s() - TELL_EVERY_S

    @property
    def told_bytes(self) -> int:
        """What the store has taken of it, as of the last time that this was told."""
        now, before = self._clock.monotonic_s(), self._before_bytes
        if before is not None and now - self._told_s >= TELL_EVERY_S:
            taken = self._answers.taken_bytes - before
            if taken > self._told_bytes:  # of a file that was refused nothing is there any more
                self._told_s, self._told_bytes = now, taken
        return self._told_bytes
