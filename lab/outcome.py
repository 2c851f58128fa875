"""What came of a fault that was done: which incidents count, and who was evicted for it. Pure.

Called by the verdicts of chaos and demo, with incidents as the driver tells them over REST.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Self

import msgspec

from holdfast.lab.chaos.injectors import Done
from holdfast.lab.chaos.scenario import Expected

Incident = Mapping[str, Any]


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """`acted`: the incidents for which something was done, oldest first. What was only reported, a
    daemon that was silent for a moment on a busy machine, say, is no answer to the fault.
    """

    acted: tuple[Incident, ...]
    evicted: tuple[str, ...]
    innocent: tuple[str, ...]
    """Evicted, and neither hurt nor allowed to be."""

    @classmethod
    def of(cls, incidents: Sequence[Incident], done: Done, expected: Expected) -> Self:
        acted = tuple(incident for incident in incidents if incident["rung"])
        evicted = tuple(node for incident in acted for node in incident["evicted"])
        innocent = tuple(node for node in evicted if node not in victims(done, expected))
        return cls(acted=acted, evicted=evicted, innocent=innocent)

    @property
    def recovered(self) -> bool:
        """Whether there was something to come back from, and the last of it is over."""
        return bool(self.acted) and self.acted[-1]["recovered_s"] is not None

    @property
    def steps_lost(self) -> int | None:
        """As the driver tells it, over all incidents; None where it told of none."""
        told = [each["steps_lost"] for each in self.acted if each["steps_lost"] is not None]
        return sum(told) if told else None


def victims(done: Done, expected: Expected) -> tuple[str, ...]:
    """Nodes that may be evicted for it, and no others."""
    return (done.node or "", *done.also) if expected.may_evict else ()


def rounded(seconds: float | None) -> float | None:
    """To the milliseconds that a verdict tells."""
    return None if seconds is None else round(seconds, 3)
