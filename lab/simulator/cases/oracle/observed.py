"""What the oracle sees of a fault: no more than a driver is told. Pure data."""

from math import exp, log

import msgspec

from holdfast.lab.simulator.cases.trouble import Manner

LONGEST_S = 10_000.0
"""Between two faults, for who does not know how often each cause strikes: any time up to that."""


class Observed(msgspec.Struct, frozen=True, kw_only=True):
    """One fault. Words count only as the same as others', or as a device's."""

    manner: Manner
    node: str | None
    place: int | None  # in the rank table
    nodes: tuple[str, ...]  # that the job ran on
    step: int
    gap_s: float  # of training before it, in this attempt
    at_start: bool
    device: bool  # its words are those of a device that failed
    version: int
    clocked: bool = False  # whoever looks knows how often each cause strikes

    def within(self, low_s: float, high_s: float) -> float:
        """The density, a second, of a cause that strikes so long after training began."""
        if not self.clocked:
            return self._at_any_time()
        return 1.0 / (high_s - low_s) if low_s <= self.gap_s <= high_s else 0.0

    def about(self, mean_s: float) -> float:
        """The same, where it strikes at random."""
        return exp(-self.gap_s / mean_s) / mean_s if self.clocked else self._at_any_time()

    def _at_any_time(self) -> float:
        """Each order of magnitude is as likely."""
        return 1.0 / (max(self.gap_s, 1.0) * log(LONGEST_S))


History = tuple[Observed, ...]
