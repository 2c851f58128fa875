"""Chance in streams: one for each subject and purpose, so that a draw more in one moves no other.

Drawn from one stream, one event more would shift every later draw, and a change of the core could
not be told from other luck. `Random` seeds itself from a string alike in every process.
"""

from random import Random


class Streams:
    """The streams of one seed, each made when it is first asked for."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._streams: dict[tuple[str, str], Random] = {}

    def of(self, subject: str, purpose: str) -> Random:
        """The stream of one subject (a node, a job) for one purpose (what is drawn for it)."""
        key = (subject, purpose)
        if key not in self._streams:
            self._streams[key] = Random(f"{self._seed} {subject} {purpose}")
        return self._streams[key]
